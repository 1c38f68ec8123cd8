// The subcommands, each run to its end. They throw std::runtime_error (cause and remedy) for a wrong start; main
// catches once. The value is the process's exit status.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/config.h"

namespace starling {

// One agent until stop_after, Ctrl-C or for ever. Exit 0 also after SIGINT/SIGTERM (polite leave).
int run_agent_command(const Config& config);

// The registry: an agent without a trainer.
int run_bootstrap_command(const Config& config);

struct SwarmOptions {
  std::string program;          // path of this binary, to start agents with
  std::string config_path;      // --config: YAML for all agents
  std::vector<std::string> overrides;  // --set
  std::string out;              // --out DIR
  uint32_t agents = 4;          // --agents
  std::optional<uint64_t> steps;       // --steps: swarm.stop_after
  std::optional<uint64_t> rng_seed;    // --seed: swarm.rng_seed
  std::vector<std::pair<uint32_t, double>> kills;  // --kill AGENT@SECONDS (agent index from 0), SIGKILL
  std::vector<double> joins;    // --join @SECONDS: takes the shard of the agent killed last (or shard 0)
  // The same by the living agents' median step, however fast the machine: --kill AGENT@stepN, --join @stepN.
  std::vector<std::pair<uint32_t, uint64_t>> kills_at_step;
  std::vector<uint64_t> joins_at_step;
  bool baselines = true;        // --no-baselines: skip the alone and central runs
};

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

// A swarm in one process on virtual time and virtual links.
struct SimulateOptions {
  std::string config_path;             // --config
  std::vector<std::string> overrides;  // --set
  std::string out;                     // --out DIR
  uint32_t agents = 8;                 // --agents
  std::optional<uint64_t> steps;       // --steps: swarm.stop_after
  std::optional<uint64_t> rng_seed;    // --seed: swarm.rng_seed, and all chance of the simulation
  std::optional<Duration> duration;    // --seconds, virtual; absent: until all have finished
  std::optional<Duration> every;       // --every: between two evaluations; absent: a twentieth of the steps
  Duration latency = std::chrono::milliseconds(10);   // --latency, of a link in one direction
  Duration jitter{};                   // --jitter: up to so much more, uniform
  double bytes_per_s = 12.5e6;         // --rate, of a link; 0 = no limit
  double loss = 0;                     // --loss: of a frame
  Duration compute = std::chrono::milliseconds(20);   // --compute: one step of an agent of speed 1
  std::vector<double> speeds = {1};    // --speeds: factors on compute, repeated over the agents
  struct Pause {
    uint32_t agent;
    double at_s, for_s;
  };
  std::vector<std::pair<uint32_t, double>> kills;      // --kill AGENT@SECONDS
  std::vector<double> joins;                           // --join @SECONDS
  std::vector<Pause> pauses;                           // --pause AGENT@SECONDS+SECONDS
  std::vector<std::string> baselines;                  // --baseline
};

class SimTask;
// What the swarm trains, from the part of this program that has LibTorch; asked for other models than the quadratic.
using SimTaskFactory = std::function<std::unique_ptr<SimTask>(const Config& config, size_t shards)>;

// Writes DIR/curve.csv, DIR/summary.json and DIR/report.html. The same options give the same files.
int run_simulate_command(const SimulateOptions& options, const SimTaskFactory& make_task);

// In simulate_trainers.cpp, apart from the rest: it needs LibTorch.
std::unique_ptr<SimTask> make_torch_task(const Config& config, size_t shards);

}  // namespace starling
