// The options of `starling swarm`, a swarm of processes on this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/config/scenario.h"

namespace starling {

struct SwarmOptions {
  std::string program;                 // path of this binary, to start agents with
  std::string config_path;             // --config: YAML for all agents
  std::vector<std::string> overrides;  // --set
  std::string out;                     // --out DIR
  uint32_t agents = 4;                 // --agents
  std::optional<uint64_t> steps;       // --steps: swarm.stop_after
  std::optional<uint64_t> rng_seed;    // --seed: swarm.rng_seed
  Scenario scenario;      // --kill, --join, --pause: SIGKILL, a newcomer, SIGSTOP. Times count from when all
                          // agents have joined. A newcomer takes a shard of FreeShards
  bool details = false;   // --details: tables with every number, those of pair exchanges included
  bool baselines = true;  // --no-baselines: skip the alone and central runs
};

}  // namespace starling
