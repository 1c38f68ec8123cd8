// What the round machine may expect of every exchange, whatever its formula.
#include <gtest/gtest.h>

#include "tests/gossip/exchange/round_harness.h"

namespace starling::exchange_test {
namespace {

using std::chrono::seconds;

template <class E>
class ExchangeConformance : public testing::Test {
 protected:
  using Swarm = RoundSwarm<E>;
};
using Exchanges = testing::Types<Pairwise, Neighborhood, Group>;
TYPED_TEST_SUITE(ExchangeConformance, Exchanges);

double mean_of(auto& swarm) {
  double sum = 0;
  for (auto& [id, agent] : swarm.agents) {
    for (float x : agent->params) sum += static_cast<double>(x);
  }
  return sum / static_cast<double>(swarm.agents.size());
}

TYPED_TEST(ExchangeConformance, ModelsMeetAtTheirMean) {
  typename TestFixture::Swarm swarm(6, {.compute = milliseconds(10)});
  swarm.network.options = {.control_min = milliseconds(1), .control_max = milliseconds(3)};
  swarm.randomize(1);
  const double before = swarm.spread(), mean = mean_of(swarm);
  swarm.run_freely(seconds(10));
  EXPECT_LT(swarm.spread(), before / 1000);
  // A neighbor mixes what it got last, so its mean wanders a little where rounds are not in step; the others' cannot.
  const bool may_wander = std::is_same_v<TypeParam, Neighborhood>;
  EXPECT_NEAR(mean_of(swarm), mean, may_wander ? 0.05 * std::abs(mean) + 2 : 1e-3);
}

TYPED_TEST(ExchangeConformance, NothingPublishedNothingBegun) {
  typename TestFixture::Swarm swarm(3, {});
  auto& agent = swarm.at(1);
  EXPECT_FALSE(agent.exchange->begin());
  EXPECT_FALSE(agent.exchange->under_way());
  EXPECT_TRUE(agent.exchange->idle());
  EXPECT_EQ(agent.exchange->next_deadline(), TimePoint::max());
  agent.exchange->publish(agent.encode());
  agent.exchange->publish(nullptr);
  EXPECT_FALSE(agent.exchange->begin());
}

TYPED_TEST(ExchangeConformance, AloneNothingIsBegun) {
  typename TestFixture::Swarm swarm(1, {});
  EXPECT_FALSE(swarm.at(1).boundary());
  EXPECT_FALSE(swarm.at(1).exchange->under_way());
}

TYPED_TEST(ExchangeConformance, SilenceEndsByItself) {
  typename TestFixture::Swarm swarm(4, {.deadline_max = milliseconds(100)});
  swarm.network.drop = [](const Flight&) { return true; };
  auto& agent = swarm.at(1);
  for (float& x : agent.params) x = 5;
  ASSERT_TRUE(agent.boundary());
  EXPECT_TRUE(agent.exchange->under_way());
  EXPECT_LT(agent.exchange->next_deadline(), TimePoint::max());
  swarm.run_for(milliseconds(400));
  EXPECT_FALSE(agent.exchange->under_way());
  agent.apply();
  for (float x : agent.params) EXPECT_EQ(x, 5);
  ASSERT_FALSE(agent.reports.empty());
  for (const ExchangeReport& report : agent.reports) {
    EXPECT_EQ(report.outcome, ExchangeOutcome::kFailed);
    EXPECT_LE(report.duration, milliseconds(250));
  }
}

TYPED_TEST(ExchangeConformance, TheDeadAreNotWaitedFor) {
  typename TestFixture::Swarm swarm(2, {.deadline_max = seconds(10)});
  swarm.network.drop = [](const Flight&) { return true; };
  auto& agent = swarm.at(1);
  ASSERT_TRUE(agent.boundary());
  agent.exchange->forget(test_peer(2));
  agent.exchange->tick();
  agent.worker.run_completions();
  EXPECT_FALSE(agent.exchange->under_way());
}

TYPED_TEST(ExchangeConformance, WhatWasTakenIsGone) {
  typename TestFixture::Swarm swarm(2, {});
  swarm.randomize(2);
  swarm.round();
  for (auto& [id, agent] : swarm.agents) {
    EXPECT_TRUE(agent->exchange->take_decided().empty());
    EXPECT_TRUE(agent->exchange->take_reports().empty());
  }
}

TYPED_TEST(ExchangeConformance, TheSameSeedGivesTheSameRun) {
  const auto run = [] {
    typename TestFixture::Swarm swarm(5, {}, 3);
    swarm.network.options = {.loss = 0.2, .doubled = 0.1, .control_min = milliseconds(1),
                             .control_max = milliseconds(40)};
    swarm.randomize(4);
    swarm.run_freely(seconds(4));
    return swarm.digest();
  };
  EXPECT_EQ(run(), run());
}

TYPED_TEST(ExchangeConformance, ThirtyPercentLossSlowsButNeverStops) {
  typename TestFixture::Swarm swarm(6, {.deadline_max = milliseconds(100), .compute = milliseconds(10)});
  swarm.network.options = {.loss = 0.3, .doubled = 0.1, .control_min = milliseconds(1),
                           .control_max = milliseconds(30)};
  swarm.randomize(6);
  const double before = swarm.spread();
  swarm.run_freely(seconds(20));
  EXPECT_LT(swarm.spread(), before / 50);
  EXPECT_LE(swarm.longest, milliseconds(600));   // in doubt for a while at most
}

}  // namespace
}  // namespace starling::exchange_test
