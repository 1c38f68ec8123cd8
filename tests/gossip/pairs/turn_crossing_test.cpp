// Pairs by turns: two proposals that cross become one exchange.
#include "gossip/pairs/sync_pairs.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/gossip/pairs/pair_harness.h"

namespace starling::exchange_test {
namespace {

using Turns = PairOf<SyncPairs>;
using TurnAgent = TestAgentOf<SyncPairs>;

// Both at once: after one latency both are in the middle and free. As two exchanges they would swap their models.
TEST(SyncPairs, ProposalsThatCrossBecomeOneExchangeAfterOneLatency) {
  for (int before = 0; before < 2; ++before) {  // with either's proposal standing
    Turns pair;
    pair.publish();
    std::set<PeerId> deciders;
    pair.swarm.network.watch = [&](const Flight& flight) {
      if (is<Commit>(flight)) deciders.insert(flight.from);
    };
    if (before) {  // an odd number of earlier proposals of one side
      pair.swarm.network.drop = [](const Flight&) { return true; };
      ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
      pair.swarm.run_for(milliseconds(600));
      pair.swarm.network.drop = nullptr;
      pair.a.pairwise->take_reports();
    }
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
    pair.swarm.run_for(milliseconds(12));
    EXPECT_FALSE(pair.a.pairwise->under_way());
    EXPECT_FALSE(pair.b.pairwise->under_way());
    pair.swarm.run_for(milliseconds(200));
    expect_all(pair.a, 2);
    expect_all(pair.b, 2);
    EXPECT_TRUE(pair.swarm.all_idle());
    EXPECT_EQ(pair.a.pairwise->counters().crossed + pair.b.pairwise->counters().crossed, 2u);
    EXPECT_EQ(deciders, std::set<PeerId>{before ? pair.b.id : pair.a.id}) << "neither id always wins";
    EXPECT_EQ(pair.a.pairwise->counters().done + pair.b.pairwise->counters().done, 2u);
  }
}

// The one whose proposal is given up moves on before it hears of the other's. Its ACCEPT then names another payload
// than the one that crossed, so what was applied with that one is taken back.
TEST(SyncPairs, ACrossingIsTakenBackWhenTheOtherHasMovedOn) {
  Turns pair;
  pair.publish();
  bool lose = true;
  pair.swarm.network.drop = [&](const Flight& flight) {
    return lose && is<Propose>(flight) && flight.from == pair.a.id;
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));  // 1 and 1: the smaller id's stands
  pair.swarm.run_for(milliseconds(15));
  expect_all(pair.a, 2);
  lose = false;
  pair.swarm.deliver({pair.a.id, pair.b.id, 1, Busy{{pair.b.id, 1, 1}, 0}, {}});
  pair.b.begin_steps();
  std::fill(pair.b.params.begin(), pair.b.params.end(), 7.0f);
  pair.b.end_steps();
  const std::vector<double> sum = {1.0 + 7.0};
  pair.swarm.run_for(milliseconds(1000));
  EXPECT_EQ(pair.a.pairwise->counters().taken_back, 1u);
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_EQ(pair.swarm.weighted_sum(), std::vector<double>(64, sum[0]));
}

// The winner's proposal is lost, and comes again before the other has given up.
TEST(SyncPairs, ALostProposalThatCrossedIsAskedAgain) {
  Turns pair;
  pair.publish();
  int lost = 0;
  pair.swarm.network.drop = [&](const Flight& flight) {
    return is<Propose>(flight) && flight.from == pair.a.id && lost++ == 0;
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
  pair.swarm.run_for(milliseconds(180));
  EXPECT_FALSE(pair.b.pairwise->under_way());
  pair.swarm.run_for(milliseconds(200));
  expect_all(pair.a, 2);
  expect_all(pair.b, 2);
  EXPECT_EQ(pair.a.pairwise->counters().taken_back, 0u);
}

// Invented or damaged: of a crossing, only the payload that crossed is accepted.
TEST(SyncPairs, AnAcceptThatNamesAnotherPayloadEndsACrossing) {
  for (const uint64_t payload : {uint64_t{0}, uint64_t{77}}) {
    Turns pair;
    pair.publish();
    pair.swarm.network.damage = [&](Flight& flight) {
      if (Accept* accept = std::get_if<Accept>(&std::get<ExchangeMessage>(flight.message))) accept->payload = payload;
    };
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
    pair.swarm.run_for(milliseconds(1000));
    expect_all(pair.a, 1);
    expect_all(pair.b, 3);
    EXPECT_EQ(pair.a.pairwise->counters().taken_back, 1u);
    EXPECT_EQ(pair.a.pairwise->counters().failed, 1u);
    EXPECT_TRUE(pair.swarm.all_idle());
  }
}

// The other proposes anew before it has answered the proposal that crossed its first one. If the first was applied
// already, the second waits for the next payload; else it takes the first one's place. No payload counts twice.
TEST(SyncPairs, ASecondCrossingSharesNothingTwice) {
  for (const bool applied : {true, false}) {
    Turns pair;
    pair.publish();
    bool lose = true;
    pair.swarm.network.drop = [&](const Flight& flight) {
      return lose && (flight.from == pair.a.id || (!applied && is<BlockPayload>(flight)));
    };
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));  // 1 and 1: the smaller id's stands
    pair.swarm.run_for(milliseconds(15));
    expect_all(pair.a, applied ? 2 : 1);
    for (uint64_t counter = 2; counter <= 4; ++counter) {
      pair.swarm.deliver({pair.b.id,
                          pair.a.id,
                          1,
                          Propose{.xid = {pair.b.id, 1, counter}, .deadline_ms = 500, .credit = 4, .payload = 7},
                          {}});
    }
    EXPECT_LE(pair.a.pairwise->waiting(), 1u) << "the last one alone";
    lose = false;
    pair.swarm.run_for(std::chrono::seconds(3));
    EXPECT_FALSE(pair.a.pairwise->under_way());
    EXPECT_TRUE(pair.swarm.all_idle());
    EXPECT_EQ(pair.swarm.weighted_sum(), std::vector<double>(64, 4.0));
  }
}

// A proposal that was given up may still be on its way. Who accepts it is told at once, not left in its turn.
TEST(SyncPairs, WhoAcceptsAProposalThatWasGivenUpIsTold) {
  Turns pair;
  pair.publish();
  const Propose given_up{.xid = {pair.a.id, 1, 7}, .deadline_ms = 500, .credit = 4};
  pair.swarm.deliver({pair.a.id, pair.b.id, 1, given_up, {}});
  EXPECT_TRUE(pair.b.pairwise->under_way());
  pair.swarm.run_for(milliseconds(20));
  EXPECT_FALSE(pair.b.pairwise->under_way());
  EXPECT_TRUE(pair.swarm.all_idle());
}

// The one whose proposal stands has applied and is free, while the other still lacks a block. Its next proposal, to the
// only partner there is, does not mean that it has given the first one up.
TEST(SyncPairs, TheNextProposalLeavesACrossingAsItIs) {
  Turns pair;
  pair.publish();
  int lost = 0;
  pair.swarm.network.drop = [&](const Flight& flight) {
    const BlockPayload* block = message_as<BlockPayload>(flight.message);
    return block != nullptr && block->index == 3 && flight.from == pair.a.id && lost++ == 0;
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
  pair.swarm.run_for(milliseconds(12));
  EXPECT_TRUE(pair.b.pairwise->under_way());
  ASSERT_FALSE(pair.a.pairwise->under_way()) << "A's proposal stands, and A has B's blocks";
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(600));
  EXPECT_EQ(pair.a.pairwise->counters().done, 2u);
  EXPECT_EQ(pair.a.pairwise->counters().taken_back + pair.b.pairwise->counters().taken_back, 0u);
  expect_all(pair.a, 2);
  expect_all(pair.b, 2);
  EXPECT_TRUE(pair.swarm.all_idle());
}

// Likewise where the payload is too large to go with a proposal, and the winner's uplink is the slower one.
TEST(SyncPairs, TheNextProposalLeavesACrossingOfLargeModelsAsItIs) {
  constexpr size_t kParams = 600'000;  // 2.4 MB
  Turns pair({.params = kParams, .block_elements = kParams / 4});
  pair.publish();
  pair.swarm.network.more_delay = [&](const Flight& flight) {
    return is<BlockPayload>(flight) && flight.from == pair.a.id ? milliseconds(100) : milliseconds(0);
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));  // 1 and 1: the smaller id's stands
  pair.swarm.run_for(milliseconds(40));
  EXPECT_TRUE(pair.b.pairwise->under_way());
  ASSERT_FALSE(pair.a.pairwise->under_way()) << "A has B's blocks";
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(1000));
  EXPECT_EQ(pair.a.pairwise->counters().done, 2u);
  EXPECT_EQ(pair.a.pairwise->counters().taken_back + pair.b.pairwise->counters().taken_back, 0u);
  EXPECT_TRUE(pair.swarm.all_idle());
}

// The one whose proposal stands is believed dead, while the other still lacks a block of it.
TEST(SyncPairs, ACrossingWithOneThatIsLostKeepsNobody) {
  Turns pair;
  pair.publish();
  pair.swarm.network.drop = [&](const Flight& flight) {
    const BlockPayload* block = message_as<BlockPayload>(flight.message);
    return block != nullptr && block->index == 3 && flight.from == pair.a.id;
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
  pair.swarm.run_for(milliseconds(12));
  ASSERT_TRUE(pair.b.pairwise->under_way());
  pair.b.pairwise->lost(pair.a.id);
  EXPECT_FALSE(pair.b.pairwise->under_way());
  pair.swarm.run_for(milliseconds(1000));  // it lives all the same: it asks again, and is told
  EXPECT_TRUE(pair.swarm.all_idle());
  expect_all(pair.a, 1);
  expect_all(pair.b, 3);
}

// The other never saw the proposal that crossed its own, which it gives up: it will not accept ours with that payload.
TEST(SyncPairs, AnAbortOfTheProposalThatCrossedEndsTheCrossing) {
  Turns pair;
  pair.publish();
  pair.swarm.network.drop = [&](const Flight& flight) { return flight.from == pair.a.id; };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
  pair.swarm.run_for(milliseconds(15));
  expect_all(pair.a, 2);
  pair.swarm.deliver({pair.b.id, pair.a.id, 1, Abort{{pair.b.id, 1, 1}}, {}});
  EXPECT_EQ(pair.a.pairwise->counters().taken_back, 1u);
  pair.a.boundary();
  expect_all(pair.a, 1);
}

// Of a crossing one side has all blocks, votes and is free; the other still lacks one. What the first proposes next
// does not mean that it has given the crossing up: it waits.
TEST(SyncPairs, TheNextProposalOfWhoHasVotedWaitsForTheCrossing) {
  Turns pair;
  pair.publish();
  int lost = 0;
  pair.swarm.network.drop = [&](const Flight& flight) {
    const BlockPayload* block = message_as<BlockPayload>(flight.message);
    return block != nullptr && block->index == 3 && flight.from == pair.b.id && lost++ == 0;
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
  pair.swarm.run_for(milliseconds(12));
  EXPECT_TRUE(pair.a.pairwise->under_way());
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id)) << "B has voted";
  pair.swarm.run_for(milliseconds(600));
  EXPECT_EQ(pair.a.pairwise->counters().done, 2u);
  EXPECT_EQ(pair.a.pairwise->counters().taken_back + pair.b.pairwise->counters().taken_back, 0u);
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_EQ(pair.swarm.weighted_sum(), std::vector<double>(64, 4.0));
}

// The winner's proposal is lost. It has applied, and proposes anew to the only partner there is, which would take that
// proposal for the one that crossed its own, and so on with each that follows.
TEST(SyncPairs, TheNextProposalBringsTheLostOneAlong) {
  Turns pair;
  pair.publish();
  int lost = 0;
  pair.swarm.network.drop = [&](const Flight& flight) {
    return is<Propose>(flight) && flight.from == pair.a.id && lost++ == 0;
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
  pair.swarm.run_for(milliseconds(12));
  ASSERT_FALSE(pair.a.pairwise->under_way());
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(600));
  EXPECT_EQ(pair.a.pairwise->counters().done, 2u);
  EXPECT_EQ(pair.a.pairwise->counters().taken_back + pair.b.pairwise->counters().taken_back, 0u);
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_EQ(pair.swarm.weighted_sum(), std::vector<double>(64, 4.0));
}

// The acceptor's answer is lost. It has voted and applied, and proposes anew to the only partner there is, which would
// take that proposal for one that crosses its own: both would then be undone.
TEST(SyncPairs, TheNextProposalBringsTheLostVoteAlong) {
  Turns pair;
  pair.publish();
  int lost = 0;
  pair.swarm.network.drop = [&](const Flight& flight) {
    return (is<Accept>(flight) || is<Have>(flight)) && flight.from == pair.b.id && lost++ < 2;
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(12));
  expect_all(pair.b, 2);
  ASSERT_FALSE(pair.b.pairwise->under_way());
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
  pair.swarm.run_for(milliseconds(100));
  EXPECT_EQ(pair.a.pairwise->counters().done, 2u);
  EXPECT_EQ(pair.b.pairwise->counters().done, 2u);
  EXPECT_EQ(pair.a.pairwise->counters().taken_back + pair.b.pairwise->counters().taken_back, 0u);
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_EQ(pair.swarm.weighted_sum(), std::vector<double>(64, 4.0));
}

// The proposer has voted for the other's exchange already, and the answer is on its way: only one side sees a crossing.
TEST(SyncPairs, ACrossingThatOneSideSeesGetsItsBlocksWhenAsked) {
  Turns pair;
  pair.publish();
  pair.swarm.network.more_delay = [&](const Flight& flight) {  // of B, its proposal overtakes what it sent before
    return flight.from == pair.b.id && !is<Propose>(flight) && !is<BlockPayload>(flight) ? milliseconds(100)
                                                                                         : milliseconds(0);
  };
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));  // counter 1, given up below
  pair.swarm.network.clear();
  pair.swarm.run_for(milliseconds(600));
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(12));  // B has voted and applied
  expect_all(pair.b, 2);
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
  pair.swarm.run_for(milliseconds(400));
  EXPECT_FALSE(pair.a.pairwise->under_way());
  EXPECT_FALSE(pair.b.pairwise->under_way());
  pair.swarm.run_for(std::chrono::seconds(3));
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_EQ(pair.swarm.weighted_sum(), std::vector<double>(64, 4.0));
}

// Who is in doubt of as many exchanges as it may be cannot vote on the one that crossing makes of two.
TEST(SyncPairs, ACrossingEndsAtOnceWhereNoVoteCanFollow) {
  Turns pair;
  pair.swarm.network.drop = [](const Flight& flight) { return is<Commit>(flight); };
  for (uint8_t other = 3; other < 3 + kInDoubtMax; ++other) {
    TurnAgent& c = pair.swarm.add(other);
    c.boundary();
    pair.b.boundary();
    ASSERT_TRUE(c.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(30));
  }
  const std::vector<float> before = pair.a.params;
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));  // 1 and 1: the smaller id's stands
  pair.swarm.run_for(milliseconds(22));
  EXPECT_FALSE(pair.a.pairwise->under_way());
  EXPECT_FALSE(pair.b.pairwise->under_way());
  pair.a.boundary();
  EXPECT_EQ(pair.a.params, before) << "taken back";
}

}  // namespace
}  // namespace starling::exchange_test
