// A simulated swarm of quadratics, whose answer is known, and the sums that exchanges must conserve.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "agent/simulate/swarm.h"
#include "agent/train/quadratic_trainer.h"
#include "gossip/rng.h"

namespace starling {

// What all of these swarms are set to; the rest is the defaults or a test's own.
inline SwarmConfig quadratic_settings(uint64_t dimension, float learning_rate, float momentum) {
  SwarmConfig swarm;
  swarm.model.kind = "quadratic";
  swarm.model.dimension = dimension;
  swarm.optimizer.learning_rate = learning_rate;
  swarm.optimizer.momentum = momentum;
  swarm.exchange.overlap = Overlap::kOff;
  swarm.exchange.deadline_max = std::chrono::milliseconds(100);
  swarm.membership.probe_interval = std::chrono::milliseconds(500);
  swarm.membership.probe_timeout = std::chrono::milliseconds(300);
  return swarm;
}

inline LinkOptions near_links(double loss) {
  return {.loss = loss, .delay_min = std::chrono::milliseconds(1), .delay_max = std::chrono::milliseconds(4)};
}

class QuadraticSwarm : public SimSwarm {
 public:
  // `shapes` are dealt out to the agents in turn.
  QuadraticSwarm(uint64_t rng_seed, const SwarmConfig& swarm, const LinkOptions& links,
                 const std::vector<QuadraticShape>& shapes = {{}})
      : SimSwarm(rng_seed, swarm, links,
                 [rng_seed, shapes](size_t agent, const SwarmConfig& config, const Clock& now,
                                    const std::function<void()>&) {
                   return make_quadratic_trainer(trainer_options(config, {}), rng_seed * 31 + agent, now,
                                                 shapes[agent % shapes.size()]);
                 }),
        rng_seed_(rng_seed) {}

  const QuadraticTrainer& quadratic(size_t agent) {
    return dynamic_cast<const QuadraticTrainer&>(trainer(agent).inner());
  }

  bool all_settle() {
    for (size_t a = 0; a < count(); ++a) {
      if (!training(a) || agent(a).rounds()->phase() != Phase::kSettling) return false;
    }
    return true;
  }

  // Of the agents that train: the optimum of the swarm where all pull alike.
  std::vector<double> mean_target() {
    std::vector<double> mean;
    double agents = 0;
    for (size_t a = 0; a < count(); ++a) {
      if (!training(a)) continue;
      const auto target = quadratic(a).target();
      mean.resize(target.size());
      for (size_t i = 0; i < target.size(); ++i) mean[i] += static_cast<double>(target[i]);
      agents += 1;
    }
    for (double& value : mean) value /= agents;
    return mean;
  }

  // Every agent begins with params and momentum of its own: for conservation, never for training.
  void start_at_random() {
    set_on_begin([this](size_t agent) { place_at_random(agent); });
  }
  // The same for agents that train already. REQUIRES: all are alike, so that no delta under way moves any.
  void throw_apart() {
    for (size_t a = 0; a < count(); ++a) place_at_random(a);
  }

  std::vector<double> sum_mass_params(bool of_momentum) {
    std::vector<double> sum;
    for (size_t a = 0; a < count(); ++a) {
      if (!training(a)) continue;
      const View view = of_momentum ? momentum(a) : params(a);
      sum.resize(view.count);
      for (size_t i = 0; i < view.count; ++i) sum[i] += agent(a).rounds()->mass() * view.data[i];
    }
    return sum;
  }
  // The same sum over all random starts, however far apart in time they were.
  const std::vector<double>& initial_sum(bool of_momentum) const {
    return of_momentum ? initial_momentum_ : initial_params_;
  }
  // The larger of what both sums have moved by since then, for each agent, in units of the rms of the random starts.
  double drift_of_sums() {
    constexpr double kApart = 0.577;
    double drift = 0;
    for (const bool of_momentum : {false, true}) {
      const std::vector<double> now = sum_mass_params(of_momentum), then = initial_sum(of_momentum);
      double squares = 0;
      for (size_t i = 0; i < now.size(); ++i) squares += std::pow(now[i] - then[i], 2);
      drift = std::max(drift, std::sqrt(squares / static_cast<double>(now.size())));
    }
    return drift / static_cast<double>(count()) / kApart;
  }

 private:
  void place_at_random(size_t agent) {
    Rng rng(rng_seed_ ^ std::hash<PeerId>()(id(agent)));
    for (const bool of_momentum : {false, true}) {
      const View view = of_momentum ? momentum(agent) : params(agent);
      std::vector<double>& sum = of_momentum ? initial_momentum_ : initial_params_;
      sum.resize(view.count);
      for (size_t i = 0; i < view.count; ++i) {
        view.data[i] = static_cast<float>(rng.uniform() * 2 - 1);
        sum[i] += this->agent(agent).rounds()->mass() * view.data[i];
      }
    }
  }

  uint64_t rng_seed_;
  std::vector<double> initial_params_, initial_momentum_;
};

}  // namespace starling
