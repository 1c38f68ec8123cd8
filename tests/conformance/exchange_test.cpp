// What the round machine may expect of every exchange, whatever its formula.
#include <gtest/gtest.h>

#include "tests/gossip/group/group_rounds.h"
#include "tests/gossip/neighborhood/neighbor_rounds.h"
#include "tests/gossip/pairs/pair_rounds.h"

namespace starling::exchange_test {
namespace {

using std::chrono::seconds;

template <class E>
class ExchangeConformance : public testing::Test {
 protected:
  using Swarm = RoundSwarm<E>;
};
using Exchanges = testing::Types<AsyncPairs, SyncPairs, Neighborhood, Group>;
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
  agent.exchange->forget(test_peer(2), kEveryLife);
  agent.exchange->tick();
  agent.worker.run_completions();
  EXPECT_FALSE(agent.exchange->under_way());
}

TYPED_TEST(ExchangeConformance, WhatWasTakenIsGone) {
  typename TestFixture::Swarm swarm(2, {});
  swarm.randomize(2);
  swarm.round();
  for (auto& [id, agent] : swarm.agents) {
    const Decided decided = agent->exchange->take_decided();
    EXPECT_TRUE(decided.deltas.empty());
    EXPECT_TRUE(decided.lessons.empty());
    EXPECT_TRUE(agent->exchange->take_reports().empty());
  }
}

TYPED_TEST(ExchangeConformance, TheSameSeedGivesTheSameRun) {
  const auto run = [] {
    typename TestFixture::Swarm swarm(5, {}, 3);
    swarm.network.options = {
        .loss = 0.2, .doubled = 0.1, .control_min = milliseconds(1), .control_max = milliseconds(40)};
    swarm.randomize(4);
    swarm.run_freely(seconds(4));
    return swarm.digest();
  };
  EXPECT_EQ(run(), run());
}

TYPED_TEST(ExchangeConformance, ThirtyPercentLossSlowsButNeverStops) {
  typename TestFixture::Swarm swarm(6, {.deadline_max = milliseconds(100), .compute = milliseconds(10)});
  swarm.network.options = {
      .loss = 0.3, .doubled = 0.1, .control_min = milliseconds(1), .control_max = milliseconds(30)};
  swarm.randomize(6);
  const double before = swarm.spread();
  swarm.run_freely(seconds(20));
  EXPECT_LT(swarm.spread(), before / 50);
  EXPECT_LE(swarm.longest, milliseconds(600));  // in doubt for a while at most
}

BlockTally tally_of(auto& swarm) {
  BlockTally sum;
  for (auto& [id, agent] : swarm.agents) sum += agent->exchange->block_tally();
  return sum;
}

// Every block that was due has one cause, whatever happened to it.
TYPED_TEST(ExchangeConformance, EveryBlockDueHasOneCause) {
  typename TestFixture::Swarm swarm(5, {.deadline_max = milliseconds(60), .inject_loss = 0.05});
  swarm.network.options = {
      .loss = 0.2, .doubled = 0.1, .control_min = milliseconds(1), .control_max = milliseconds(50)};
  swarm.randomize(8);
  for (int i = 0; i < 40; ++i) {
    swarm.run_freely(milliseconds(250));
    if (i == 20) {
      swarm.at(5).paused = true;
      for (uint8_t tag = 1; tag <= 4; ++tag) swarm.at(tag).exchange->forget(test_peer(5), kEveryLife);
    }
    for (auto& [id, agent] : swarm.agents) expect_adds_up(agent->exchange->block_tally());
  }
  const BlockTally tally = tally_of(swarm);
  EXPECT_GT(tally.due, 500u);
  EXPECT_GT(tally.counted, tally.due / 3);
  EXPECT_GT(tally.missing, 0u);
  EXPECT_GT(tally.ignored_messages, 0u);  // the doubled ones
  EXPECT_EQ(tally.refused, 0u);
}

// Without loss all that is due counts.
TYPED_TEST(ExchangeConformance, WhatComesInTimeIsCounted) {
  typename TestFixture::Swarm swarm(4, {});
  swarm.run_freely(seconds(1));
  const BlockTally tally = tally_of(swarm);
  EXPECT_GT(tally.due, 0u);
  EXPECT_EQ(tally.counted, tally.due);
  expect_adds_up(tally);
}

// Strangers' frames, nonsense and other exchanges' messages move one count only.
TYPED_TEST(ExchangeConformance, HostileMessagesAreIgnoredAndChangeNoOtherCount) {
  typename TestFixture::Swarm swarm(4, {});
  swarm.run_freely(seconds(1));
  swarm.run_for(seconds(1));
  auto& agent = swarm.at(1);
  ASSERT_TRUE(agent.boundary());
  BlockTally before = agent.exchange->block_tally();
  Rng rng(3);
  const SharedBytes payload = SharedBytes::copy_of(std::vector<std::byte>(16, std::byte{0xff}));
  for (int i = 0; i < 300; ++i) {
    const PeerId stranger = test_peer(static_cast<uint8_t>(9 + rng.below(200)));
    const RoundBlock block{rng.next_u64(), rng.next_u64(), static_cast<uint8_t>(rng.below(3)), rng.below(20), 1, 0};
    agent.exchange->handle(stranger, 1, block, payload);
    agent.exchange->handle(stranger, 1, RoundCredit{rng.next_u64(), rng.next_u64(), 0, rng.below(20)}, {});
    agent.exchange->handle(stranger, 1, BlockPayload{{test_peer(3), 1, rng.next_u64()}, rng.below(20), 0}, payload);
    agent.exchange->handle(test_peer(2), 1, CommitAck{{test_peer(3), 1, rng.next_u64()}}, {});  // of no exchange here
    agent.worker.run_completions();
  }
  const BlockTally after = agent.exchange->block_tally();
  EXPECT_EQ(after.ignored_messages, before.ignored_messages + 1200);
  before.ignored_messages = after.ignored_messages;
  EXPECT_EQ(std::memcmp(&before, &after, sizeof after), 0);
}

}  // namespace
}  // namespace starling::exchange_test
