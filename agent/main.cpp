// The program's door: arguments in, one subcommand run, the only catch.
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "agent/commands/cli.h"
#include "agent/simulate/task.h"

namespace {

using namespace starling;

int run_agent(const Cli& cli) {
  const Config config = load_config(cli.config_path, cli.overrides);
  if (cli.print_config) {
    std::fputs(print_config(config).c_str(), stdout);
    return 0;
  }
  // The state folder of an earlier run knows its swarm; without one somebody has to name it.
  if (!config.has_swarm && config.agent.bootstrap.empty() && !std::filesystem::exists(config.agent.state)) {
    throw std::runtime_error(
        "this agent knows no swarm. Join one:  starling agent --bootstrap HOST:PORT --data FOLDER\n"
        "or begin one:  starling agent --config FILE --data FOLDER  (starling init --task digits "
        "FILE makes the file)");
  }
  return run_agent_command(config);
}

int run(const Cli& cli) {
  switch (cli.command) {
    case CommandKind::kAgent: return run_agent(cli);
    case CommandKind::kBootstrap: return run_bootstrap_command(load_config(cli.config_path, cli.overrides));
    case CommandKind::kSwarm: return run_swarm_command(cli.swarm);
    case CommandKind::kInit: return run_init_command(cli.init_task, cli.init_path);
    case CommandKind::kCheck:
      load_config(cli.config_path, {});
      std::printf("%s: ok\n", cli.config_path.c_str());
      return 0;
    case CommandKind::kTopology: return run_topology_command(cli.topology);
    case CommandKind::kSimulate: return run_simulate_command(cli.simulate, make_torch_task);
    case CommandKind::kShown: return cli.exit_status;
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    spdlog::set_default_logger(spdlog::stderr_color_mt("starling"));
    spdlog::set_pattern("%H:%M:%S.%e %^%l%$ %v");
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    const Cli cli = parse_cli(argc, argv, error ? argv[0] : program.string());
    spdlog::set_level(spdlog::level::from_str(cli.log_level));
    return run(cli);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "starling: out of memory; take a smaller model or batch, or a machine with more memory\n");
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "starling: %s\n", error.what());
    return 1;
  }
}
