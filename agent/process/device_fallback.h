// What a process does when its GPU fails: with `device: auto` it continues on the CPU.
#pragma once

#include <functional>

#include "agent/config/config.h"

namespace starling {

// run(config), and if that throws a DeviceFailure while agent.device is auto, run again with agent.device: cpu. The
// state folder carries over what was saved. Returns what run returns; throws what it throws otherwise.
int run_on_gpu_or_cpu(const Config& config, const std::function<int(const Config&)>& run);

}  // namespace starling
