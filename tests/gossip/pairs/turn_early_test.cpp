// Pairs by turns: what is applied before the decision, and taken back where that is another.
#include "gossip/pairs/sync_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/gossip/pairs/pair_harness.h"

namespace starling::exchange_test {
namespace {

using Turns = PairOf<SyncPairs>;
using TurnAgent = TestAgentOf<SyncPairs>;

TEST(SyncPairs, TheAcceptorAppliesAtItsVoteAndIsFree) {
  Turns pair;
  pair.publish();
  pair.swarm.network.drop = [](const Flight& flight) { return is<Have>(flight) || is<Query>(flight); };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(30));
  expect_all(pair.b, 2);
  EXPECT_FALSE(pair.b.pairwise->under_way());
  EXPECT_TRUE(pair.b.pairwise->in_doubt());
}

TEST(SyncPairs, WhatIsAbortedIsTakenBackFromTheSameBytes) {
  Turns pair;
  pair.publish();
  pair.swarm.network.drop = [](const Flight& flight) { return is<Have>(flight); };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(2000));
  expect_all(pair.a, 1);
  expect_all(pair.b, 3);
  EXPECT_EQ(pair.b.pairwise->counters().taken_back, 1u);
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_EQ(pair.swarm.network.payloads_held(), 0u);
}

// The acceptor votes for all blocks; the proposer lacks one: it commits to the others, and both apply those.
TEST(SyncPairs, ASmallerDecisionReplacesWhatWasAppliedEarly) {
  Turns pair;
  pair.publish();
  pair.swarm.network.drop = [&](const Flight& flight) {
    return is<BlockPayload>(flight) && flight.from == pair.b.id && message_as<BlockPayload>(flight.message)->index == 1;
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(2000));
  for (TurnAgent* agent : {&pair.a, &pair.b}) {
    EXPECT_EQ(agent->params[0], 2);
    EXPECT_EQ(agent->params[16], agent == &pair.a ? 1 : 3);
  }
  EXPECT_EQ(pair.b.pairwise->counters().taken_back, 1u);
}

// Four agents, of which `a` usually meets others 1 away, and `b` others 100 away.
struct Unlike : Turns {
  TurnAgent& c;
  TurnAgent& d;

  Unlike() : Turns({.clip = 3}), c(swarm.add(3)), d(swarm.add(4)) {
    for (int i = 0; i < 10; ++i) {
      meet(a, i % 2 == 0 ? c : d, 1);
      meet(b, i % 2 == 0 ? c : d, 100);
    }
  }
  void meet(TurnAgent& first, TurnAgent& second, float distance) {
    first.params.assign(64, 0);
    second.params.assign(64, distance);
    first.boundary();
    second.boundary();
    EXPECT_TRUE(first.pairwise->propose(second.id));
    swarm.run_for(milliseconds(200));
  }
};

// Whoever is far from most, and knows it, takes what they bring whole.
TEST(SyncPairs, EachMovesByItsOwnGuard) {
  for (const bool proposes : {true, false}) {
    Unlike swarm;
    swarm.meet(proposes ? swarm.a : swarm.b, proposes ? swarm.b : swarm.a, 12);
    expect_all(swarm.a, proposes ? 1.5 : 10.5);
    expect_all(swarm.b, 6);
    EXPECT_EQ(swarm.a.pairwise->counters().taken_back + swarm.b.pairwise->counters().taken_back, 0u);
    EXPECT_EQ(swarm.a.pairwise->counters().gain_permille, 10'250u);
  }
}

TEST(SyncPairs, WhoIsRefusedMayComeNearAllTheSame) {
  for (const bool proposes : {true, false}) {
    Unlike swarm;
    for (unsigned i = 0; i < ClipGuard::kMeetings + 2; ++i) {
      swarm.meet(proposes ? swarm.a : swarm.b, proposes ? swarm.b : swarm.a, 100);
    }
    expect_all(swarm.a, proposes ? 0 : 100);
    expect_all(swarm.b, 50);
    const PairwiseCounters a = swarm.a.pairwise->counters(), b = swarm.b.pairwise->counters();
    EXPECT_EQ(a.guard_refused, 1u);
    EXPECT_EQ(a.done + 1, b.done);
    EXPECT_TRUE(swarm.a.pairwise->status().idle);
    EXPECT_TRUE(swarm.b.pairwise->status().idle);
  }
}

// While settling. Over all blocks the other is near, which the winner of a crossing applies at once. The other lacks
// all but one, by which the two are far apart: neither takes anything.
TEST(SyncPairs, WhatIsTooFarByTheBlocksThatBothHaveIsTakenBack) {
  Turns pair({.clip = 3});
  pair.a.params.assign(64, 0);
  pair.b.params.assign(64, 0);
  std::fill_n(pair.b.params.begin(), 16, 4.0f);  // rms: 2 over all, 4 over the first block
  pair.a.far = pair.b.far = Far{.first = 3, .last = 1, .others = nullptr};
  pair.publish();
  pair.swarm.network.drop = [&](const Flight& flight) {
    const BlockPayload* block = message_as<BlockPayload>(flight.message);
    return block != nullptr && block->index > 0 && flight.from == pair.a.id;
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));  // 1 and 1: the smaller id's stands
  pair.swarm.run_for(milliseconds(15));
  ASSERT_EQ(pair.a.params[0], 2) << "applied early";
  pair.swarm.run_for(milliseconds(1500));
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_EQ(pair.a.pairwise->counters().taken_back, 1u);
  expect_all(pair.a, 0);
  EXPECT_EQ(pair.b.params[0], 4);
}

TEST(SyncPairs, ARestartOfTheProposerTakesBackWhatItNeverDecided) {
  Turns pair;
  pair.publish();
  pair.swarm.network.drop = [](const Flight& flight) { return is<Have>(flight); };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(30));
  expect_all(pair.b, 2);
  pair.b.pairwise->forget(pair.a.id, 2);
  pair.b.apply();
  expect_all(pair.b, 3);
}

// A decision stands: an ABORT that follows it changes nothing.
TEST(SyncPairs, AnAbortAfterTheCommitChangesNothing) {
  Turns pair;
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(100));
  pair.swarm.deliver({pair.a.id, pair.b.id, 1, Abort{{pair.a.id, 1, 1}}, {}});
  pair.swarm.run_for(milliseconds(100));
  expect_all(pair.a, 2);
  expect_all(pair.b, 2);
  EXPECT_EQ(pair.b.pairwise->counters().taken_back, 0u);
}

// A large model's payloads are not kept while in doubt: its acceptor waits for the decision, but not for ever. They do
// not go with the proposal either: sent in vain they would cost more than a latency.
TEST(SyncPairs, TheAcceptorOfALargeModelWaitsForTheWordUntilItsDeadline) {
  constexpr size_t kParams = 1'200'000;  // 4.8 MB
  PairOf<SyncPairs> pair({.params = kParams, .block_elements = kParams / 4});
  pair.publish();
  pair.swarm.network.drop = [&](const Flight& flight) { return is<Commit>(flight); };
  bool accepted = false;
  pair.swarm.network.watch = [&](const Flight& flight) {
    accepted = accepted || is<Accept>(flight);
    EXPECT_TRUE(accepted || !is<BlockPayload>(flight));
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(60));
  ASSERT_TRUE(pair.b.pairwise->in_doubt());
  EXPECT_EQ(pair.b.params[0], 3) << "not applied early";
  EXPECT_TRUE(pair.b.pairwise->under_way());
  pair.swarm.run_for(milliseconds(500));
  EXPECT_FALSE(pair.b.pairwise->under_way());
  EXPECT_TRUE(pair.b.pairwise->in_doubt());
  pair.swarm.network.drop = nullptr;
  pair.swarm.run_for(std::chrono::seconds(5));
  EXPECT_EQ(pair.b.params[0], 2);
}

// Nor longer than until the proposer is believed dead. It may be back all the same: the doubt stays.
TEST(SyncPairs, TheAcceptorOfALargeModelWaitsForNobodyThatIsLost) {
  constexpr size_t kParams = 1'200'000;  // 4.8 MB
  PairOf<SyncPairs> pair({.params = kParams, .block_elements = kParams / 4});
  pair.publish();
  pair.swarm.network.drop = [&](const Flight& flight) { return is<Commit>(flight); };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(60));
  ASSERT_TRUE(pair.b.pairwise->in_doubt());
  ASSERT_TRUE(pair.b.pairwise->under_way());
  pair.b.pairwise->lost(pair.a.id);
  EXPECT_FALSE(pair.b.pairwise->under_way());
  EXPECT_TRUE(pair.b.pairwise->in_doubt());
  pair.swarm.network.drop = nullptr;
  pair.swarm.run_for(std::chrono::seconds(5));
  EXPECT_EQ(pair.a.params[0], 2);
  EXPECT_EQ(pair.b.params[0], 2);
}

}  // namespace
}  // namespace starling::exchange_test
