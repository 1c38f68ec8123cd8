// How many bytes of payloads and states a member of a group that shares updates holds, by what it holds them for. The
// replica, its momentum and the accumulator are the model's own memory and not counted.
#pragma once

#include <cstddef>
#include <set>

#include "gossip/net/transport.h"

namespace starling {

// A buffer that is held for several reasons counts for the first of them.
struct UpdateMemory {
  size_t entries = 0;    // of the logs: for members that missed them, and for the next boundary
  size_t sent = 0;       // own payloads: those that may yet count, and those that another log may lack or count
  size_t handed_in = 0;  // by others, for the slices that this member owns or owned
  size_t arriving = 0;   // entries that the log has not taken yet
  size_t states = 0;     // of slices: copies for members that are far behind, and those that arrive

  size_t total() const { return entries + sent + handed_in + arriving + states; }
};

class HeldBytes {
 public:
  // The size of a buffer that was not seen before, else 0.
  size_t add(const SharedBytes& bytes) { return seen_.insert(bytes.data).second ? bytes.size : 0; }

 private:
  std::set<const std::byte*> seen_;
};

}  // namespace starling
