// Swarms that end soon, and whether their agents ended with one model.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tests/sim/exchange_cases.h"

namespace starling {

// Pull apart and end after 60 steps, so that slow graphs are far from one model then.
inline SwarmConfig ending_soon(const ExchangeCase& exchange) {
  SwarmConfig config = config_of(exchange);
  config.stop_after = 160;  // so late that all have told of their models, which they do once a second
  return config;
}

inline void add_agents(QuadraticSwarm& swarm, size_t count) {
  for (size_t a = 0; a < count; ++a) {
    SimAgentOptions options;
    options.step_time = std::chrono::milliseconds(10);
    swarm.add(options);
  }
}

// Models that agree, in rms over the rms of their mean: twice the ball of Settling, as estimates may be too small.
inline double may_be_apart(const SwarmConfig& config) { return 0.5 * config.final_distance; }

// Between the models of two agents, in rms over the rms of the mean of all.
inline double apart(QuadraticSwarm& swarm, size_t a, size_t b) {
  const View x = swarm.params(a), y = swarm.params(b);
  double squares = 0, mean_squares = 0;
  for (size_t i = 0; i < x.count; ++i) squares += std::pow(double{x.data[i]} - double{y.data[i]}, 2);
  for (const double value : swarm.mean_params()) mean_squares += value * value;
  return std::sqrt(squares / mean_squares);
}

inline double farthest_pair(QuadraticSwarm& swarm) {
  double most = 0;
  for (size_t a = 0; a < swarm.count(); ++a) {
    for (size_t b = 0; b < a; ++b) most = std::max(most, apart(swarm, a, b));
  }
  return most;
}

// How many agents have this agent's model, itself among them.
inline size_t count_near(QuadraticSwarm& swarm, size_t agent, double distance) {
  size_t count = 0;
  for (size_t a = 0; a < swarm.count(); ++a) count += apart(swarm, a, agent) <= distance ? 1 : 0;
  return count;
}

inline size_t settled_count(QuadraticSwarm& swarm) {
  size_t count = 0;
  for (size_t a = 0; a < swarm.count(); ++a) count += swarm.agent(a).rounds()->settled().value_or(false);
  return count;
}

}  // namespace starling
