#include "agent/process/heap.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace starling {

void keep_freed_memory() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

HeapUse heap_use() {
  const struct mallinfo2 heap = mallinfo2();
  size_t size = 0, resident = 0, shared = 0;  // in pages
  std::ifstream("/proc/self/statm") >> size >> resident >> shared;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return {heap.uordblks + heap.hblkhd, (resident - std::min(resident, shared)) * page};
}

void give_back_freed_memory() { malloc_trim(0); }

HeapWatch::HeapWatch(const Clock& clock, Worker& worker, std::function<HeapUse()> look, std::function<void()> give_back)
    : clock_(clock),
      worker_(worker),
      look_(std::move(look)),
      give_back_(std::move(give_back)),
      next_look_(clock.now()) {}

// Rounds use more in their middle than between them, so what counts as unused was free at each of many looks.
void HeapWatch::tick() {
  if (clock_.now() < next_look_) return;
  next_look_ = clock_.now() + kLookEvery;
  const HeapUse now = look_();
  after_ = in_use_.empty() ? now.resident : std::min(after_, now.resident);
  if (in_use_.size() == kLooks) in_use_.erase(in_use_.begin());
  in_use_.push_back(now.in_use);
  if (in_use_.size() < kLooks) return;
  const size_t needed = *std::max_element(in_use_.begin(), in_use_.end());
  const size_t worth = std::max(kLeast, needed / 8);
  // Where the last time brought nothing, the next one would not either.
  const bool grown = times_ == 0 || now.resident >= after_ + worth;
  if (now.resident < needed + worth || !grown) return;
  ++times_;
  in_use_.clear();
  worker_.submit(give_back_, [] {});
}

}  // namespace starling
