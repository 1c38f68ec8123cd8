#include <memory>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/local/command_lines.h"
#include "agent/local/run.h"
#include "agent/share/memory_need.h"

namespace starling {

int run_swarm_command(const SwarmOptions& options) {
  const Config config = load_config(options.config_path, swarm_overrides(options));
  const uint64_t agents = options.agents + options.scenario.joins();
  refuse_absent(config.swarm, agents);
  require_memory_for(config.swarm, config.agent, agents);
  return run_local_swarm(options, config);
}

void add_swarm(CLI::App& app, Cli& cli) {
  Subcommand command(app, "swarm", "Runs a registry and agents here, with a live table and a report.");
  add_common_flags(command, cli, true);
  const auto options = std::make_shared<SwarmOptions>();
  SwarmOptions& swarm = *options;
  add_count_flag(command, swarm.agents, "--agents", {1, 64}, "Number of agents, each a process. Default: 4.");
  command.text("--out FOLDER", "Folder for the report and the logs.", swarm.out);
  command.require("--out");
  add_count_flag(command, swarm.steps, "--steps", {1}, "Sets swarm.stop_after. Default: what the config says.");
  add_count_flag(command, swarm.rng_seed, "--seed", {}, "Sets swarm.rng_seed. Default: what the config says.");
  add_scenario_flags(command, swarm.scenario);
  command.flag("--details", "Prints more numbers of each agent, and how its pair exchanges went.", swarm.details);
  command.flag("!--no-baselines", "Leaves out the runs to compare with: each agent alone, and one with all data.",
               swarm.baselines);
  command.then([&cli, options] {
    options->program = cli.program;
    options->config_path = cli.config_path;
    options->overrides = cli.overrides;
    cli.choose("swarm", *options, [trains = cli.engines.run_agent != nullptr](const SwarmOptions& chosen) {
      require_engine(trains, "swarm");
      return run_swarm_command(chosen);
    });
  });
}

}  // namespace starling
