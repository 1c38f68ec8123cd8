// One simulated swarm from the genesis to its end, evaluated on the way.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/report/log_report.h"
#include "agent/report/pair_report.h"
#include "agent/simulate/options.h"
#include "agent/simulate/task.h"
#include "gossip/exchange/exchange.h"

namespace starling {

// A row of curve.csv.
struct CurvePoint {
  std::string series;  // swarm: one agent; mean: the mean of the agents' params; else a baseline
  std::optional<size_t> agent;
  double virtual_s = 0;
  uint64_t step = 0;                // of the agent; else the mean over agents
  uint64_t samples = 0, bytes = 0;  // of the agent; else of all agents, the killed ones included
  SimScore score;
  std::optional<double> distance;  // rms over params: of the agent to the mean; of the agents to it
};

struct SimEvent {
  double virtual_s = 0;
  std::string text;  // "agent 3 killed"
};

struct SwarmOutcome {
  std::vector<CurvePoint> points;
  std::vector<SimEvent> events;
  std::vector<std::string> remarks;  // what was planned and did not happen
  uint64_t digest = 0;
  double virtual_s = 0;
  bool finished = false;                       // every agent alive trained to stop_after
  size_t alive = 0;                            // agents at the end
  uint64_t done = 0, late = 0, failed = 0;     // exchanges of the agents alive at the end
  BlockTally blocks;                           // of their exchanges
  bool in_rounds = false;                      // as ExchangeStatus says
  std::vector<std::optional<LogReport>> logs;  // by agent, of a swarm that shares updates; nullopt: not there any more
  std::vector<std::optional<PairReport>> pairs;  // by agent, while it trained; nullopt: it made no pair exchange
};

// What one step of an agent takes; agents that join later included.
Duration step_time_of(const SimulateOptions& options, size_t agent);
// Steps between two evaluations.
uint64_t steps_between_scores(const SimulateOptions& options, uint64_t steps);

// Called often. `median_step` of the agents that train costs more than most instants: ask for it now and then.
using OnSimProgress = std::function<void(double virtual_s, const std::function<uint64_t()>& median_step)>;

// `config` is the result of `options`.
SwarmOutcome run_simulated_swarm(const SimulateOptions& options, const Config& config, SimTask& task,
                                 const OnSimProgress& on_progress);

}  // namespace starling
