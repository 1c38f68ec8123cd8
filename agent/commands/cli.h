// The command line: a subcommand and its options, out of the arguments of main().
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/config/config.h"
#include "agent/train/torch_evaluation.h"

namespace starling {

class SimTask;
// What a simulated swarm trains.
using SimTaskFactory = std::function<std::unique_ptr<SimTask>(const Config& config, size_t shards)>;

// evaluate_model().
using ModelJudge = std::function<ModelScore(const ModelConfig& model, std::span<const float> params,
                                            const Dataset& data, const std::string& device)>;

// The functions that need LibTorch, empty in a program without it. main() passes them in, so that the command line is
// built and tested without LibTorch.
struct Engines {
  std::function<int(const Config&)> run_agent;  // until it has ended; the process's exit status
  SimTaskFactory make_task;                     // for other models than the quadratic
  ModelJudge judge_model;
};

// Throws std::runtime_error, with the remedy, unless the engine that `command` needs is `there`.
void require_engine(bool there, const std::string& command);

struct Cli {
  std::string program;  // path of this binary, to start agents with
  Engines engines;
  std::string command_line;            // as typed, on one line, for a shell; tickets are hidden
  std::string command;                 // by name; empty: help, version or a usage error was shown
  std::any options;                    // of the command, as commands.h names them
  std::function<int()> run;            // to the end of the command; empty where `command` is
  int exit_status = 0;                 // without a command: 2 after a usage error
  std::string config_path;             // agent, bootstrap, swarm, simulate, check
  std::vector<std::string> overrides;  // "a.b=c" of --set, "--flag=value" of flags, as they stood: later ones win
  std::string log_level = "info";      // --log-level, else STARLING_LOG_LEVEL

  template <typename Options, typename Run>
  void choose(const char* name, Options chosen, Run run_it) {
    command = name;
    options = chosen;
    run = [chosen = std::move(chosen), run_it = std::move(run_it)] { return run_it(chosen); };
  }
};

// Prints help, version and usage errors itself.
Cli parse_cli(int argc, const char* const* argv, const std::string& program, const Engines& engines);

}  // namespace starling
