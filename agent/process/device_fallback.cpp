#include "agent/process/device_fallback.h"

#include <spdlog/spdlog.h>

#include "kernels/device_failure.h"

namespace starling {

int run_on_gpu_or_cpu(const Config& config, const std::function<int(const Config&)>& run) {
  try {
    return run(config);
  } catch (const DeviceFailure& failure) {
    if (config.agent.device != "auto") throw;
    spdlog::warn("{}. agent.device is auto: this agent begins again on the CPU, from its last checkpoint",
                 failure.what());
  }
  Config on_cpu = config;  // out of the handler: all that the first run held is gone
  on_cpu.agent.device = "cpu";
  return run(on_cpu);
}

}  // namespace starling
