// What a swarm is compared with, on the same genesis, shards, optimizer, batch, number of steps and links. All of them
// use trainers through the Trainer interface alone; none is part of an agent.
//
// Times are lower bounds: nothing is lost, and every link has its full rate whatever the others do.
#pragma once

#include <string>
#include <vector>

#include "agent/simulate/run.h"

namespace starling {

inline constexpr uint32_t kLocalSgdStepsDefault = 8;   // where the swarm's own local_steps is 1

struct SimLink {
  double latency_s = 0;    // the mean, jitter included
  double bytes_per_s = 0;  // 0: no limit
  double transfer_s(double bytes) const { return bytes_per_s > 0 ? bytes / bytes_per_s : 0; }
};

// Ring all-reduce of that many bytes: 2 (n - 1) messages of 1/n each, one after the other.
double allreduce_seconds(size_t agents, double bytes, const SimLink& link);
// Every agent sends its gradient and gets the params: 2 n payloads over the server's one link.
double server_seconds(size_t agents, double bytes, const SimLink& link);

// "allreduce", ...: the words of --baseline, without "none".
const std::vector<std::string>& baseline_names();

// The curves of options.baselines, in that order. `swarm` is the result of `options`; REQUIRES: its stop_after > 0.
std::vector<CurvePoint> run_baselines(const SimulateOptions& options, const SwarmConfig& swarm, SimTask& task,
                                      const std::function<void(const std::string& name, uint64_t step)>& on_progress);

}  // namespace starling
