// Swarms that end soon, and whether their agents ended with one model.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <sstream>
#include <string>

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include "tests/sim/exchange_cases.h"

namespace starling {

// Pull apart and end after 60 steps, so that slow graphs are far from one model then.
inline SwarmConfig ending_soon(const ExchangeCase& exchange) {
  SwarmConfig config = config_of(exchange);
  config.stop_after = 60;
  return config;
}

inline void add_agents(QuadraticSwarm& swarm, size_t count) {
  for (size_t a = 0; a < count; ++a) {
    SimAgentOptions options;
    options.step_time = std::chrono::milliseconds(10);
    swarm.add(options);
  }
}

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

// What agents warn of, or say of any level, while this lives.
class Warned {
 public:
  explicit Warned(spdlog::level::level_enum least = spdlog::level::warn) {
    const auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(text_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
    spdlog::set_level(least);
  }
  ~Warned() { spdlog::set_default_logger(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream text_;
};

}  // namespace starling
