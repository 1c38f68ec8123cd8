// starling agent: its flags, and the checks that need no agent.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/data/dataset.h"
#include "agent/train/model_kinds.h"

namespace starling {
namespace {

int run_agent_command(const AgentCommand& command, const std::function<int(const Config&)>& run) {
  const Config config = load_config(command.config_path, command.overrides);
  if (command.print_config) {
    std::fputs(print_config(config).c_str(), stdout);
    return 0;
  }
  require_engine(run != nullptr, "agent");
  // The state folder of an earlier run holds the settings, or knows members; else --config or --bootstrap must.
  const auto holds = [&](const char* file) { return std::filesystem::exists(config.agent.state + "/" + file); };
  if (!config.has_swarm && config.agent.bootstrap.empty() && !holds("settings.yaml") && !holds("members")) {
    throw std::runtime_error(
        "this agent knows no swarm. Join one:  starling agent --bootstrap HOST:PORT --data FOLDER\n"
        "or begin one:  starling agent --config FILE --data FOLDER  (starling init --task digits "
        "FILE makes the file)");
  }
  if (config.has_swarm && model_kind(config.swarm.model.kind).needs_data) refuse_unnamed_data(config.agent.data);
  return run(config);
}

}  // namespace

void add_agent(CLI::App& app, Cli& cli) {
  Subcommand command(app, "agent", "Trains here and exchanges with the swarm until Ctrl-C or stop_after.");
  add_common_flags(command, cli);
  add_bootstrap_flag(
      command, cli,
      "Address of any agent or registry of the swarm; HOST:PORT#TICKET where it has tickets, @FILE with such a "
      "line, or - for one on stdin. Repeatable, or with commas. Default: none, which begins a swarm.");
  for (const char* usage :
       {"--data FOLDER", "--test-data FOLDER", "--sharding KIND", "--shard I/N", "--labels LABELS", "--wait-for N",
        "--listen HOST:PORT", "--advertise HOST:PORT", "--swarm ID", "--state FOLDER", "--name NAME", "--device DEVICE",
        "--batch N", "--threads N", "--metrics FILE"}) {
    add_config_flag(command, cli, usage);
  }
  const auto options = std::make_shared<AgentCommand>();
  command.flag("--alone", "Starts again without waiting for the peers of its last run.", options->alone);
  command.flag("--print-config", "Prints the whole configuration in effect, with the meaning of each key, and ends.",
               options->print_config);
  command.then([&cli, options] {
    options->config_path = cli.config_path;
    options->overrides = cli.overrides;
    if (options->alone) options->overrides.push_back("agent.return_wait=0s");
    cli.choose("agent", *options,
               [run = cli.engines.run_agent](const AgentCommand& chosen) { return run_agent_command(chosen, run); });
  });
}

}  // namespace starling
