// The timing of failure detection and dissemination.
#pragma once

#include <chrono>
#include <cstdint>

#include "gossip/clock.h"

namespace starling {

struct MembershipOptions {
  Duration probe_interval = std::chrono::milliseconds(1000);
  Duration probe_timeout = std::chrono::milliseconds(500);  // upper bound of the adaptive one
  uint32_t indirect_probes = 3;
  double suspicion = 4;                               // times max(1, log10 n) * probe_interval
  Duration heal_interval = std::chrono::seconds(10);  // between contacts with dead members and seeds
  Duration tombstone_life = std::chrono::hours(24);
  Duration meta_interval = std::chrono::milliseconds(500);  // between statuses; longer with many members
};

inline constexpr Duration kLastWords = std::chrono::milliseconds(100);  // time for the farewell to be sent

}  // namespace starling
