// Updates and gradients: combinations that would let replicas part, or with which a codec cannot work.
#pragma once

#include "agent/config/config.h"

namespace starling {

// Throws ConfigError, with what to write instead.
void refuse_unmergeable(const SwarmConfig& swarm);

}  // namespace starling
