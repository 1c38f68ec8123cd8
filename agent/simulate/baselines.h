// What a swarm is compared with, on the same genesis, shards, optimizer, batch, number of steps and links. All of them
// use trainers through the Trainer interface alone; none is part of an agent.
//
// Times are lower bounds: nothing is lost, a message costs its bytes and its latency alone, and a node's uplink and
// downlink are busy without a gap while there is something to send. What is compressed costs no time to compress.
#pragma once

#include <string>
#include <vector>

#include "agent/simulate/run.h"

namespace starling {

// "allreduce", ...: the words of --baseline, without "none".
const std::vector<std::string>& baseline_names();

// Throws std::runtime_error, with the remedy, where one of them cannot be computed for this swarm.
void refuse_baselines(const std::vector<std::string>& names, const SwarmConfig& swarm);

// The curves of options.baselines, in that order. `swarm` is the result of `options`; REQUIRES: its stop_after > 0.
std::vector<CurvePoint> run_baselines(const SimulateOptions& options, const SwarmConfig& swarm, SimTask& task,
                                      const std::function<void(const std::string& name, uint64_t step)>& on_progress);

}  // namespace starling
