// The figures of the experiment from which the formula comes, and where it says nothing.
#include "agent/run/pair_drift.h"

#include <gtest/gtest.h>

#include <functional>

namespace starling {
namespace {

// `exchanges` of one agent in 100 steps, each at this gain.
PairReport made(uint64_t exchanges, uint64_t gain_permille = 1000) {
  PairReport pairs;
  pairs.counters.done = exchanges;
  pairs.counters.gain_permille = exchanges * gain_permille;
  pairs.steps = 100;
  return pairs;
}

SwarmConfig pairs_with_momentum() {
  SwarmConfig swarm;
  swarm.exchange.carry_momentum = true;
  swarm.optimizer.momentum = 0.9;
  return swarm;
}

TEST(PairDrift, IsWhatMixingLeavesOfOneStep) {
  const SwarmConfig swarm = pairs_with_momentum();
  EXPECT_NEAR(*pair_drift(swarm, made(100), 4), 0.714, 0.001);  // one exchange a step
  EXPECT_NEAR(*pair_drift(swarm, made(200), 4), 0.139, 0.001);
  EXPECT_NEAR(*pair_drift(swarm, made(100, 500), 4), 5.0, 0.001);  // half of the gain
  EXPECT_DOUBLE_EQ(*pair_drift(swarm, made(100), 2), 0);           // two agents are equal after each exchange
  SwarmConfig stays = swarm;
  stays.exchange.carry_momentum = false;
  EXPECT_NEAR(*pair_drift(stays, made(100), 4), 5.0, 0.001);  // the momentum, too, goes its own way
  SwarmConfig parts = swarm;
  parts.exchange.fragments = 4;
  EXPECT_DOUBLE_EQ(*pair_drift(parts, made(400), 4), *pair_drift(swarm, made(100), 4));
}

TEST(PairDrift, IsNotKnownWhereTheFormulaSaysNothing) {
  const auto unknown = [](const std::function<void(SwarmConfig&)>& change) {
    SwarmConfig swarm = pairs_with_momentum();
    change(swarm);
    return !pair_drift(swarm, made(100), 4).has_value();
  };
  EXPECT_FALSE(unknown([](SwarmConfig&) {}));
  EXPECT_TRUE(unknown([](SwarmConfig& swarm) { swarm.exchange.kind = ExchangeKind::kGroup; }));
  EXPECT_TRUE(unknown([](SwarmConfig& swarm) { swarm.topology.kind = TopologyKind::kRing; }));
  const SwarmConfig swarm = pairs_with_momentum();
  EXPECT_FALSE(pair_drift(swarm, made(0), 4).has_value());
  EXPECT_FALSE(pair_drift(swarm, made(100, 0), 4).has_value());  // clipped to nothing
  EXPECT_FALSE(pair_drift(swarm, made(100), 1).has_value());
  EXPECT_FALSE(pair_drift(swarm, {}, 4).has_value());
}

}  // namespace
}  // namespace starling
