// The report of a local swarm, from what its agents' metrics and checkpoints say.
#pragma once

#include <cstddef>

#include "agent/local/member.h"
#include "agent/report/report.h"

namespace starling {

struct SwarmTimes {
  double origin_wall_s = 0;  // when all agents had joined; the report's times count from here
  double seconds = 0;        // from the start of the agents to the end of the last one
};

// Members from `founders` on are newcomers. Title, remark and baselines are left to the caller.
SwarmReport make_swarm_report(const SwarmMembers& members, size_t founders, const SwarmTimes& times);

}  // namespace starling
