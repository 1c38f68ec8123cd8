// How the exchanges of one agent ended, or those with one of its partners.
#pragma once

#include <cstdint>

namespace starling {

struct ExchangeCounts {
  uint64_t done = 0, late = 0, failed = 0;
};

}  // namespace starling
