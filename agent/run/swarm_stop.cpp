#include "agent/run/swarm_stop.h"

#include <fmt/format.h>

namespace starling {

std::string problem_of_stop(uint64_t wanted, uint64_t agreed, uint64_t before) {
  const std::string asked = fmt::format("swarm.stop_after: {}: ", wanted);
  if (agreed == 0) return asked + "this swarm trains until Ctrl-C, as it was begun; leave the flag away";
  if (wanted == 0)
    return asked + fmt::format("a run that ends, at step {} now, cannot be made endless; write a step", before);
  if (wanted < before) {
    return asked + fmt::format(
                       "a running swarm can only be prolonged, and it goes to step {} now; leave the flag out. To end "
                       "it sooner, stop its agents with Ctrl-C",
                       before);
  }
  if (wanted / SwarmStop::kRiseMax > before) {
    return asked + fmt::format("at most {} times the present {} steps at a time; write {}, and more later",
                               SwarmStop::kRiseMax, before, SwarmStop::kRiseMax * before);
  }
  return "";
}

}  // namespace starling
