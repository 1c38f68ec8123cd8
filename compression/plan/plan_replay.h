// Plays a merge plan message by message: each member has a processor for messages, an uplink, a downlink and a worker
// that applies entries. What the cost form of a group leaves out: buckets of different owners under way side by side.
#pragma once

#include <cstdint>
#include <span>

#include "compression/plan/merge_plan.h"

namespace starling {

struct Replay {
  StepTimes times;                // a bucket is sent from its first message on until all members hold its entries; the
                                  //   step ends when every member has applied every entry
  uint64_t messages_busiest = 0;  // sent and taken
};

// Of a group: each part of a bucket goes to its owner, and the owner's entries come back when all have submitted.
// REQUIRES: `slices`, `options` those of the model that `by_form` are of.
Replay replay_group(std::span<const PlanSection> slices, const StepTimes& by_form, const StepOptions& options);

}  // namespace starling
