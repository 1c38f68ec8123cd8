#include "agent/commands/commands.h"
#include "agent/local/member.h"
#include "agent/local/run.h"

namespace starling {

int run_swarm_command(const SwarmOptions& options) {
  const Config config = load_config(options.config_path, swarm_overrides(options));
  refuse_absent(config.swarm, options.agents + options.scenario.joins());
  return run_local_swarm(options, config);
}

}  // namespace starling
