// The command line. CLI11 stays inside cli.cpp.
#pragma once

#include <string>
#include <vector>

#include "agent/commands/commands.h"

namespace starling {

// kShown: help, version or a usage error
enum class CommandKind { kAgent, kBootstrap, kSwarm, kInit, kCheck, kTopology, kSimulate, kShown };

struct Cli {
  CommandKind command = CommandKind::kShown;
  int exit_status = 0;                  // of kShown: 2 after a usage error
  std::string config_path;              // agent, bootstrap, swarm, simulate, check
  std::vector<std::string> overrides;   // "a.b=c" of --set, "--flag=value" of flags, as they stood: later ones win
  bool print_config = false;
  std::string log_level = "info";       // --log-level, else STARLING_LOG_LEVEL
  SwarmOptions swarm;
  std::string init_task, init_path;
  TopologyOptions topology;
  SimulateOptions simulate;
};

// Prints help, version and usage errors itself. `program` is the path of this binary, for starting agents with.
Cli parse_cli(int argc, const char* const* argv, const std::string& program);

}  // namespace starling
