#include <memory>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/config/mistakes.h"
#include "agent/local/command_lines.h"
#include "agent/local/run.h"

namespace starling {

int run_swarm_command(const SwarmOptions& options) {
  const Config config = load_config(options.config_path, swarm_overrides(options));
  Mistakes mistakes;
  mistakes.attempt([&] { refuse_absent(config.swarm, options.agents + options.scenario.joins()); });
  mistakes.attempt([&] { refuse_unrepaired(config.swarm); });
  mistakes.refuse();
  return run_local_swarm(options, config);
}

void add_swarm(CLI::App& app, Cli& cli) {
  Subcommand command(app, "swarm", "a whole swarm on this machine: registry, agents, live table, report");
  add_common_flags(command, cli);
  command.require("--config");
  const auto options = std::make_shared<SwarmOptions>();
  SwarmOptions& swarm = *options;
  add_count_flag(command, swarm.agents, "--agents", {1, 64}, "how many");
  command.text("--out FOLDER", "for the report and the logs", swarm.out);
  command.require("--out");
  add_count_flag(command, swarm.steps, "--steps", {1}, "swarm.stop_after");
  add_count_flag(command, swarm.rng_seed, "--seed", {}, "swarm.rng_seed");
  add_scenario_flags(command, swarm.scenario);
  command.flag("!--no-baselines", "skip the agents alone and the one with all data", swarm.baselines);
  command.then([&cli, options] {
    options->program = cli.program;
    options->config_path = cli.config_path;
    options->overrides = cli.overrides;
    cli.choose("swarm", *options, run_swarm_command);
  });
}

}  // namespace starling
