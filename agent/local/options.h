// What a swarm of processes on this machine is asked to do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace starling {

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

}  // namespace starling
