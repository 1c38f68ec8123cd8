#include <memory>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/local/command_lines.h"
#include "agent/local/run.h"

namespace starling {

int run_swarm_command(const SwarmOptions& options) {
  const Config config = load_config(options.config_path, swarm_overrides(options));
  refuse_absent(config.swarm, options.agents + options.scenario.joins());
  return run_local_swarm(options, config);
}

void add_swarm(CLI::App& app, Cli& cli) {
  CLI::App* command =
      app.add_subcommand("swarm", "a whole swarm on this machine: registry, agents, live table, report");
  add_common_flags(command, cli);
  command->get_option("--config")->required();
  const auto options = std::make_shared<SwarmOptions>();
  SwarmOptions& swarm = *options;
  command->add_option("--agents", swarm.agents, "how many")->type_name("")->check(CLI::Range(1, 64));
  command->add_option("--out", swarm.out, "folder for the report and the logs")->type_name("")->required();
  add_count_flag(command, swarm.steps, "--steps", 1, "swarm.stop_after");
  add_count_flag(command, swarm.rng_seed, "--seed", 0, "swarm.rng_seed");
  add_scenario_flags(command, swarm.scenario);
  command->add_flag("!--no-baselines", swarm.baselines, "skip the agents alone and the one with all data");
  command->callback([&cli, options] {
    options->program = cli.program;
    options->config_path = cli.config_path;
    options->overrides = cli.overrides;
    cli.choose("swarm", *options, run_swarm_command);
  });
}

}  // namespace starling
