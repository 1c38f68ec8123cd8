// What the heap of an agent keeps, and when it gives memory back to the system.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "gossip/clock.h"
#include "gossip/worker.h"

namespace starling {

// Payloads of one size are allocated and freed with every exchange. If the heap returned them to the kernel, each would
// cost a page fault per 4 KiB; so the heap keeps them. One arena, because otherwise each thread would keep its own.
void keep_freed_memory();

struct HeapUse {
  size_t in_use = 0;    // bytes that are allocated
  size_t resident = 0;  // bytes of memory that no file backs and no other process shares
};
HeapUse heap_use();
void give_back_freed_memory();  // some ten milliseconds for 100 MB, in which nobody can allocate

// Gives back what the heap holds and rounds do not need. A start holds states of slices, payloads that another log may
// count, and a second copy of the model; all that would stay for the life of the process.
class HeapWatch {
 public:
  static constexpr Duration kLookEvery = std::chrono::seconds(1);
  static constexpr size_t kLooks = 30;
  static constexpr size_t kLeast = 32 << 20;  // no less is worth it

  // References must outlive the object. `give_back` runs on the worker.
  HeapWatch(const Clock& clock, Worker& worker, std::function<HeapUse()> look = heap_use,
            std::function<void()> give_back = give_back_freed_memory);

  void tick();
  size_t times_given_back() const { return times_; }

 private:
  const Clock& clock_;
  Worker& worker_;
  const std::function<HeapUse()> look_;
  const std::function<void()> give_back_;
  TimePoint next_look_;
  std::vector<size_t> in_use_;  // at each look since memory was last given back, kLooks at most
  size_t after_ = 0;            // resident at least since then: the worker may be busy at first
  size_t times_ = 0;
};

}  // namespace starling
