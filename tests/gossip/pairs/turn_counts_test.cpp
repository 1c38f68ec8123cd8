// Pairs by turns: what is counted of the time and of what came to nothing.
#include "gossip/pairs/sync_pairs.h"

#include <gtest/gtest.h>

#include "tests/gossip/pairs/pair_harness.h"

namespace starling::exchange_test {
namespace {

using Turns = PairOf<SyncPairs>;
using TurnAgent = TestAgentOf<SyncPairs>;

// Asking until the answer is there, in the exchange until it is decided, and nothing while the trainer may go on.
TEST(SyncPairs, TheTimeOfEachPartOfATurnIsCounted) {
  Turns pair;
  pair.publish();
  pair.b.begin_steps();
  pair.swarm.network.more_delay = [](const Flight& flight) {  // the vote comes 7 ms after ACCEPT, A's blocks 5 ms late
    return is<Have>(flight) ? milliseconds(7) : is<BlockPayload>(flight) ? milliseconds(35) : milliseconds(0);
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(40));
  pair.b.end_steps();
  ASSERT_TRUE(pair.b.pairwise->serve());  // A's blocks come at 45
  pair.swarm.run_for(milliseconds(1000));
  expect_all(pair.a, 2);
  const PairwiseCounters a = pair.a.pairwise->counters(), b = pair.b.pairwise->counters();
  EXPECT_EQ(a.asking_us, 50'000u) << "10 there, 30 in its steps, 10 back";
  EXPECT_EQ(a.own_us, 35'000u) << "the blocks of B are the last that comes";
  EXPECT_EQ(a.serving_us, 0u);
  EXPECT_EQ(b.serving_us, 5'000u);
  EXPECT_EQ(b.asking_us + b.own_us, 0u);
}

// One that crosses is under way from when the other's proposal is here.
TEST(SyncPairs, ACrossingIsNoLongerAsked) {
  Turns pair;
  pair.publish();
  pair.swarm.network.more_delay = [](const Flight& flight) { return milliseconds(is<BlockPayload>(flight) ? 3 : 0); };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
  pair.swarm.run_for(milliseconds(500));
  const PairwiseCounters a = pair.a.pairwise->counters(), b = pair.b.pairwise->counters();
  EXPECT_EQ(a.asking_us, 10'000u);
  EXPECT_EQ(a.own_us, 3'000u);
  EXPECT_EQ(b.asking_us, 10'000u);
  EXPECT_EQ(b.serving_us, 3'000u) << "the smaller id's stands";
}

// A payload left behind is served while the trainer works.
TEST(SyncPairs, WhatIsServedDuringStepsCostsNoTime) {
  Turns pair;
  pair.a.boundary();
  pair.b.boundary(pair.swarm.clock.now() + milliseconds(300));
  pair.b.stepping = true;
  pair.swarm.network.more_delay = [](const Flight& flight) { return milliseconds(is<BlockPayload>(flight) ? 5 : 0); };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(100));
  expect_all(pair.a, 2);
  EXPECT_EQ(pair.b.pairwise->counters().serving_us, 0u);
}

TEST(SyncPairs, WhyAProposalWaitsIsCounted) {
  {  // in steps
    Turns pair;
    pair.publish();
    pair.b.begin_steps();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(50));
    const PairwiseCounters b = pair.b.pairwise->counters();
    EXPECT_EQ(b.queued, 1u);
    EXPECT_EQ(b.queued_turn + b.queued_asking, 0u);
  }
  {  // in an exchange that another began, and in an own one
    Turns pair;
    TurnAgent& c = pair.swarm.add(3);
    pair.publish();
    c.boundary();
    pair.swarm.network.drop = [](const Flight& flight) { return is<BlockPayload>(flight); };
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(25));
    const Propose propose{.xid = {test_peer(9), 1, 1}, .deadline_ms = 500, .credit = 4};
    for (TurnAgent* agent : {&pair.a, &pair.b}) {
      pair.swarm.deliver({test_peer(9), agent->id, 1, propose, {}});
      const PairwiseCounters counters = agent->pairwise->counters();
      EXPECT_EQ(counters.queued, 1u);
      EXPECT_EQ(counters.queued_turn, 1u);
      EXPECT_EQ(counters.queued_asking, 0u);
    }
  }
  {  // for the answer to the own proposal; a larger id's is told BUSY when it does not come
    Turns pair;
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));  // now the round trip is known: 20 ms
    pair.swarm.run_for(milliseconds(200));
    pair.publish();
    pair.b.begin_steps();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    const Propose propose{.xid = {test_peer(9), 1, 1}, .deadline_ms = 500, .credit = 4};
    pair.swarm.deliver({test_peer(9), pair.a.id, 1, propose, {}});
    EXPECT_EQ(pair.a.pairwise->counters().queued_asking, 1u);
    EXPECT_EQ(pair.a.pairwise->counters().queued_turn, 0u);
    EXPECT_EQ(pair.a.pairwise->counters().rings, 0u);
    pair.swarm.run_for(milliseconds(30));
    EXPECT_EQ(pair.a.pairwise->counters().rings, 1u);
    const Propose second{.xid = {test_peer(8), 1, 1}, .deadline_ms = 500, .credit = 4};
    pair.swarm.deliver({test_peer(8), pair.a.id, 1, second, {}});
    EXPECT_EQ(pair.a.pairwise->counters().rings, 2u) << "told at once";
    EXPECT_EQ(pair.a.pairwise->counters().queued, 1u);
  }
}

// Nobody there, and somebody who stops in the middle, in either role: all are failed, for different reasons.
TEST(SyncPairs, WhatTimeRanOutForIsCounted) {
  Turns silent, no_vote, no_blocks;
  silent.publish();
  silent.swarm.network.drop = [&](const Flight& flight) { return flight.from == silent.b.id; };
  ASSERT_TRUE(silent.a.pairwise->propose(silent.b.id));
  silent.swarm.run_for(std::chrono::seconds(2));
  EXPECT_EQ(silent.a.pairwise->counters().unanswered, 1u);
  EXPECT_EQ(silent.a.pairwise->counters().undecided, 0u);
  no_vote.publish();
  no_vote.swarm.network.drop = [](const Flight& flight) { return is<Have>(flight); };
  ASSERT_TRUE(no_vote.a.pairwise->propose(no_vote.b.id));
  no_vote.swarm.run_for(std::chrono::seconds(2));
  EXPECT_EQ(no_vote.a.pairwise->counters().unanswered, 0u);
  EXPECT_EQ(no_vote.a.pairwise->counters().undecided, 1u);
  no_blocks.publish();
  no_blocks.swarm.network.drop = [](const Flight& flight) { return is<BlockPayload>(flight); };
  ASSERT_TRUE(no_blocks.a.pairwise->propose(no_blocks.b.id));
  no_blocks.swarm.run_for(std::chrono::seconds(2));
  EXPECT_EQ(no_blocks.b.pairwise->counters().undecided, 1u);
  EXPECT_EQ(no_blocks.a.pairwise->counters().failed, 1u) << "it was told";
}

}  // namespace
}  // namespace starling::exchange_test
