#include "agent/train/schedule.h"

#include <algorithm>
#include <cmath>

namespace starling {

double schedule_factor(const OptimizerConfig& optimizer, uint64_t swarm_steps, uint64_t stop_after) {
  const auto step = static_cast<double>(swarm_steps);
  const auto warmup = static_cast<double>(optimizer.warmup);
  if (step < warmup) return (step + 1) / (warmup + 1);
  switch (optimizer.schedule) {
    case Schedule::kConstant: return 1;
    case Schedule::kStep:
      return std::pow(optimizer.decay, std::floor(step / static_cast<double>(optimizer.decay_every)));
    case Schedule::kCosine: {
      const double done = std::min(1.0, (step - warmup) / (static_cast<double>(stop_after) - warmup));
      return 0.5 * (1 + std::cos(3.14159265358979323846 * done));
    }
  }
  return 1;
}

}  // namespace starling
