// A swarm of real processes on this machine: started, watched, killed and joined as told, then compared and reported.
#pragma once

#include "agent/config/config.h"
#include "agent/local/options.h"

namespace starling {

// `config` is the result of `options`, for all agents. The value is the process's exit status: 1 if any agent failed.
// Throws std::runtime_error for a start that cannot work.
int run_local_swarm(const SwarmOptions& options, const Config& config);

}  // namespace starling
