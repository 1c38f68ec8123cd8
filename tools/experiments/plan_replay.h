// Plays a merge plan message by message, on virtual time: each member has a processor for messages, an uplink and a
// downlink of its own. What the planner's cost form leaves out: buckets of different owners under way side by side.
#pragma once

#include "compression/plan/comparison.h"

namespace starling {

struct Replay {
  double end_s = 0;             // since the begin of backward: every member holds every entry
  uint64_t messages_busiest = 0;   // sent and taken
};

// Of a group: each part of a bucket goes to its owner, and the owner's entries come back when all have handed in.
Replay replay_group(const std::vector<PlanSection>& slices, const StepTimes& times, const StepOptions& options);

}  // namespace starling
