// The learning rate over the swarm's clock.
#pragma once

#include <cstdint>

#include "agent/train/options.h"

namespace starling {

// What the schedule makes of the learning rate at this step of the swarm's clock.
double schedule_factor(const OptimizerConfig& optimizer, uint64_t swarm_steps, uint64_t stop_after);

}  // namespace starling
