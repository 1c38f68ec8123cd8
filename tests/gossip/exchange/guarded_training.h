// Agents that train a model whose answer is known, in rounds, and one of them that lies: what a guard costs and brings.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/gossip/exchange/round_harness.h"
#include "tests/support/seeds.h"

namespace starling::exchange_test {

constexpr size_t kParams = 4096;
constexpr int kLiesFrom = 20;  // rounds

// Each member is drawn towards a target of its own, with noise. With `by_class` it alone moves a part of the model, 25
// times as far as the others do.
template <class E>
struct Training {
  size_t members = 8;
  size_t block = kParams;
  bool by_class = false;
  double rate = 0.05, noise = 0.02;
  size_t fast = 0;  // members that take 8 steps a round, and weigh an eighth
  int rounds = 120;
  bool guarded = true;
  std::function<double(int round)> rate_factor;
  std::function<void(int round, RoundSwarm<E>&)> before_round;
  size_t liars = 1;                               // the last ones
  std::function<void(Flight&, RoundBlock&)> lie;  // theirs, from round kLiesFrom on
  bool gone = false;                              // they leave then
  bool silent = false;                            // or say nothing any more
  double loss = 0;
};

struct Trained {
  double loss = 0;    // of the worst healthy member, over the healthy ones' targets; last half of the rounds
  double spread = 0;  // of the healthy, likewise: rms of the farthest from their mean
  uint64_t far = 0;   // members left out, or neighbors clipped, by one healthy member in one round each
  uint64_t digest = 0;
  std::vector<double> spreads;  // by round
};

template <class E>
class Trainees {
 public:
  Trainees(const Training<E>& training, uint64_t rng_seed)
      : training_(training),
        rng_(rng_seed),
        swarm_(training.members,
               {.params = kParams,
                .block_elements = training.block,
                .inject_loss = training.loss,
                .far = training.guarded ? RoundKind<E>::kFar : 0},
               rng_seed) {
    std::vector<float> common(kParams);
    for (float& x : common) x = unit();
    for (auto& [id, agent] : swarm_.agents) {
      agent->params = common;
      std::vector<float>& target = targets_[id];
      const size_t stretch = kParams / 64, first = index_of(id) * stretch;
      for (size_t i = 0; i < kParams; ++i) {
        const bool own_class = training.by_class && i >= first && i < first + stretch;
        target.push_back(common[i] + unit() * (own_class ? 25.0f : 1.0f));
      }
      if (index_of(id) < training.fast) agent->mass = 0.125;
      agent->local_step = [this](RoundAgent<E>& one) { train(one); };
    }
    for (auto& [id, agent] : swarm_.agents) {
      if (all_healthy() || !lies(id)) healthy_.push_back(agent.get());
    }
    for (size_t i = 0; i < kParams; ++i) {
      double sum = 0, squares = 0;
      for (const RoundAgent<E>* agent : healthy_) {
        const double target = targets_.at(agent->id)[i];
        sum += target;
        squares += square(target);
      }
      mean_target_.push_back(sum / count());
      loss_at_mean_ += squares / count() - square(mean_target_.back());
    }
  }

  Trained run() {
    Trained result;
    size_t counted = 0;
    for (round_ = 0; round_ < training_.rounds; ++round_) {
      if (training_.before_round) training_.before_round(round_, swarm_);
      if (round_ == kLiesFrom && training_.lie) lie();
      if (round_ == kLiesFrom && training_.gone) leave();
      if (round_ == kLiesFrom && training_.silent) silence();
      round();
      result.spreads.push_back(spread());
      if (round_ < training_.rounds / 2) continue;
      ++counted;
      result.loss += worst_loss();
      result.spread += result.spreads.back();
    }
    result.loss /= static_cast<double>(counted);
    result.spread /= static_cast<double>(counted);
    result.digest = swarm_.digest();
    for (const RoundAgent<E>* agent : healthy_) {
      for (const ExchangeReport& report : agent->reports) {
        result.far += RoundKind<E>::far(report);
      }
    }
    return result;
  }

 private:
  float unit() { return static_cast<float>((rng_.uniform() - 0.5) * std::sqrt(12.0)); }  // of unit variance
  bool lies(const PeerId& id) const { return index_of(id) >= training_.members - training_.liars; }
  bool all_healthy() const { return !training_.lie && !training_.gone && !training_.silent; }
  size_t index_of(const PeerId& id) const { return size_t{id.bytes[0]} - 1; }
  double count() const { return static_cast<double>(healthy_.size()); }

  void train(RoundAgent<E>& agent) {
    const std::vector<float>& target = targets_[agent.id];
    const auto rate = static_cast<float>(training_.rate * (training_.rate_factor ? training_.rate_factor(round_) : 1));
    for (size_t step = 0; step < (index_of(agent.id) < training_.fast ? 8u : 1u); ++step) {
      for (size_t i = 0; i < kParams; ++i) {
        const float gradient = agent.params[i] - target[i] + static_cast<float>(training_.noise) * unit();
        agent.params[i] -= rate * gradient;
      }
    }
  }
  void round() {
    for (auto& [id, agent] : swarm_.agents) {
      if (!agent->paused) agent->boundary();
    }
    swarm_.run_for(milliseconds(800));
    for (auto& [id, agent] : swarm_.agents) {
      if (!agent->paused) agent->apply();
    }
  }
  void silence() {
    for (auto& [id, agent] : swarm_.agents) agent->paused = lies(id);
  }
  void leave() {
    silence();
    for (auto& [id, agent] : swarm_.agents) std::erase_if(agent->list, [this](const PeerId& one) { return lies(one); });
  }
  void lie() {
    swarm_.network.damage = [this](Flight& flight) {
      auto* message = std::get_if<ExchangeMessage>(&flight.message);
      RoundBlock* block = message ? std::get_if<RoundBlock>(message) : nullptr;
      if (block != nullptr && lies(flight.from)) training_.lie(flight, *block);
    };
  }

  static double square(double x) { return x * x; }
  static double squared_distance(const std::vector<float>& x, const std::vector<double>& y) {
    double sum = 0;
    for (size_t i = 0; i < kParams; ++i) sum += square(x[i] - y[i]);
    return sum;
  }
  double farthest_from(const std::vector<double>& y) const {  // squared
    double worst = 0;
    for (const RoundAgent<E>* agent : healthy_) worst = std::max(worst, squared_distance(agent->params, y));
    return worst;
  }
  // Of a model over all the healthy members' data: its squared distance to their mean, and theirs to it.
  double worst_loss() const { return (farthest_from(mean_target_) + loss_at_mean_) / kParams; }
  double spread() const {
    std::vector<double> mean(kParams);
    for (const RoundAgent<E>* agent : healthy_) {
      for (size_t i = 0; i < kParams; ++i) mean[i] += static_cast<double>(agent->params[i]);
    }
    for (double& x : mean) x /= count();
    return std::sqrt(farthest_from(mean) / kParams);
  }

  const Training<E> training_;
  Rng rng_;
  RoundSwarm<E> swarm_;
  std::map<PeerId, std::vector<float>> targets_;
  std::vector<const RoundAgent<E>*> healthy_;
  std::vector<double> mean_target_;  // the healthy members'
  double loss_at_mean_ = 0;          // summed over the params
  int round_ = 0;
};

template <class E>
Trained train(const Training<E>& training, uint64_t rng_seed = first_seed()) {
  return Trainees<E>(training, rng_seed).run();
}

// All of them the same way, by 30 times what a round's steps move a model of the default training.
template <class E>
void throw_away(RoundSwarm<E>& swarm, uint8_t first, uint8_t last) {
  for (uint8_t tag = first; tag <= last; ++tag) {
    Rng rng(7);
    for (float& x : swarm.at(tag).params) x += 30 * 0.05f * static_cast<float>((rng.uniform() - 0.5) * std::sqrt(12.0));
  }
}

inline void fill(Flight& flight, float value) {
  std::vector<float> values(flight.payload.size / sizeof(float), value);
  flight.payload = shared_copy(std::as_bytes(std::span(values)));
}

template <typename Change>
void change(Flight& flight, const Change& of) {
  std::vector<float> values(flight.payload.size / sizeof(float));
  std::memcpy(values.data(), flight.payload.data, flight.payload.size);
  for (float& value : values) value = of(value);
  flight.payload = shared_copy(std::as_bytes(std::span(values)));
}

struct Lie {
  const char* name;
  std::function<void(Flight&, RoundBlock&)> tell;
  bool gross = true;      // else of the kinds that may cost more
  bool as_owner = false;  // of a group's averages
  bool as_near = false;   // as honest members are: no rule of distance holds it, and its cost is printed only
};

inline void noise(Flight& flight, const RoundBlock& block, float size) {
  Rng rng(block.round * 31 + block.index);
  change(flight, [&](float x) { return x + size * static_cast<float>(rng.uniform() - 0.5); });
}

// Of a member whose model stays as it was when it began to lie, but for this factor a round. As an owner it averages as
// it should.
inline std::function<void(Flight&, RoundBlock&)> drift(float factor) {
  using Sent = std::pair<PeerId, uint32_t>;  // by whom, which block
  struct State {
    uint64_t round = 0, began = 0;
    std::map<Sent, std::vector<float>> models;
  };
  return [factor, state = std::make_shared<State>()](Flight& flight, RoundBlock& block) {
    if (block.phase == 1) return;
    if (state->models.empty() || block.round < state->round) *state = {block.round, block.round, {}};  // another run
    state->round = block.round;
    std::vector<float>& model = state->models[{flight.from, block.index}];
    if (model.empty()) {
      model.resize(flight.payload.size / sizeof(float));
      std::memcpy(model.data(), flight.payload.data, flight.payload.size);
    }
    std::vector<float> sent = model;
    for (float& x : sent) x *= std::pow(factor, static_cast<float>(block.round - state->began));
    flight.payload = shared_copy(std::as_bytes(std::span(sent)));
  };
}

inline std::vector<Lie> lies() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  return {
      {"a million", [](Flight& f, RoundBlock&) { fill(f, 1e6f); }},
      {"a thousand", [](Flight& f, RoundBlock&) { fill(f, 1e3f); }},
      {"not a number", [nan](Flight& f, RoundBlock&) { fill(f, nan); }},
      {"-10 times its own", [](Flight& f, RoundBlock&) { change(f, [](float x) { return -10 * x; }); }},
      {"a thousand as owner",
       [](Flight& f, RoundBlock& b) {
         if (b.phase == 1) fill(f, 1e3f);
       },
       true, true},
      {"noise as owner",
       [](Flight& f, RoundBlock& b) {
         if (b.phase == 1) noise(f, b, 10);
       },
       false, true},
      {"noise", [](Flight& f, RoundBlock& b) { noise(f, b, 10); }, false},
      {"noise in every other round",
       [](Flight& f, RoundBlock& b) {
         if (b.round % 2 == 0) noise(f, b, 10);
       },
       false},
      {"noise in one block",
       [](Flight& f, RoundBlock& b) {
         if (b.index == 0) noise(f, b, 30);
       },
       false},
      {"the sign turned", [](Flight& f, RoundBlock&) { change(f, [](float x) { return -x; }); }, false, false, true},
      {"stands still", drift(1), false, false, true},
      {"1.1 times a round", drift(1.1f), false, false, true}};
}

}  // namespace starling::exchange_test
