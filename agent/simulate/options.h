// The options of `starling simulate`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/config/scenario.h"
#include "gossip/clock.h"

namespace starling {

// A swarm in one process on virtual time and a virtual network.
struct SimulateOptions {
  std::string command_line;            // the whole of it; empty: not known
  std::string config_path;             // --config
  std::vector<std::string> overrides;  // --set
  std::string out;                     // --out DIR
  uint32_t agents = 8;                 // --agents
  std::optional<uint64_t> steps;       // --steps: swarm.stop_after
  std::optional<uint64_t> rng_seed;    // --seed: swarm.rng_seed, and all chance of the simulation
  std::optional<Duration> duration;    // --seconds, virtual; absent: until all have finished
  std::optional<Duration> every;       // --every: between two evaluations; absent: a twentieth of the steps
  Duration latency = std::chrono::milliseconds(10);  // --latency, of a link in one direction
  Duration jitter{};                                 // --jitter: added to the latency, uniform from 0 to this
  double bytes_per_s = 12.5e6;                       // --rate, of each agent's uplink and of its downlink; 0 = no limit
  double loss = 0;                                   // --loss: of a frame
  double exchange_loss = 0;                          // --lose-exchanges: of a pair exchange, with all its messages
  Duration compute = std::chrono::milliseconds(20);  // --compute: one step of an agent of speed 1
  std::vector<double> speeds = {1};                  // --speeds: factors on compute, repeated over the agents
  Scenario scenario;                                 // --kill, --join, --pause; a newcomer takes a shard of FreeShards
  std::vector<std::string> baselines;                // --baseline
  bool details = false;                              // --details: how the pair exchanges of each agent went
};

}  // namespace starling
