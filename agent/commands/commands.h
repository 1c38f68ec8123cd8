// The subcommands, each run to its end. They throw std::runtime_error (cause and remedy) for a wrong start; main
// catches once. The value is the process's exit status.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/config/config.h"
#include "agent/local/options.h"
#include "agent/simulate/options.h"

namespace starling {

// One agent until stop_after, Ctrl-C or for ever. Exit 0 also after SIGINT/SIGTERM (polite leave).
int run_agent_command(const Config& config);

// The registry: an agent without a trainer.
int run_bootstrap_command(const Config& config);

// Starts a registry and N agents as processes on loopback, shows one live table, kills and joins as told, runs the
// baselines, writes DIR/report.html and DIR/report.json. Exit 1 if any agent failed.
int run_swarm_command(const SwarmOptions& options);

// init --task digits|cifar10 FILE: writes a commented config. Never overwrites.
int run_init_command(const std::string& task, const std::string& path);

struct TopologyOptions {
  std::string kind;                    // --kind; empty: "file" where there is a file, else "all"
  std::optional<uint64_t> agents;      // --agents; absent: as many as the file names, else 16
  std::optional<uint64_t> degree;      // --degree, of regular
  uint64_t rng_seed = 1;               // --seed
  uint64_t params = 10'000'000;        // --params: the size of the model, for the bytes
  std::string codec = "fp32";          // --codec
  std::string file;                    // --file: edges by name
  std::string svg;                     // --svg FILE; empty: draws in the terminal
};

// Prints what a graph costs and how fast it averages, and draws it; "all" prints a line for each kind.
int run_topology_command(const TopologyOptions& options);

class SimTask;
// What the swarm trains, from the part of this program that has LibTorch; asked for other models than the quadratic.
using SimTaskFactory = std::function<std::unique_ptr<SimTask>(const Config& config, size_t shards)>;

// Writes DIR/curve.csv, DIR/summary.json and DIR/report.html. The same options give the same files.
int run_simulate_command(const SimulateOptions& options, const SimTaskFactory& make_task);

}  // namespace starling
