// What a group and the log of updates count alike since this agent began.
#pragma once

#include <cstdint>

namespace starling {

struct GroupCounters {
  uint64_t rounds = 0, rounds_whole = 0;  // whole: every block of both phases arrived in time
};

}  // namespace starling
