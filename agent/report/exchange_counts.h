// How the exchanges of one agent ended, or those with one of its partners.
#pragma once

#include <cstdint>

namespace starling {

struct ExchangeCounts {
  uint64_t done = 0, late = 0, failed = 0;
  uint64_t left_out = 0;   // times that a peer's model, or a part of it, did not count because it was too far away
};

}  // namespace starling
