// How the exchanges of one agent ended, or those with one of its partners.
#pragma once

#include <cstdint>

namespace starling {

struct ExchangeCounts {
  uint64_t done = 0;      // all that was due was mixed
  uint64_t late = 0;      // some of it came too late, and the rest was mixed
  uint64_t failed = 0;    // nothing was mixed
  uint64_t left_out = 0;  // times that a peer's model, or a part of it, did not count because it was too far away

  uint64_t completed() const { return done + late; }
};

}  // namespace starling
