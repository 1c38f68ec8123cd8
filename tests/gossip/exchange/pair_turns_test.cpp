// Pairs by turns: what waits, what crosses, what is applied early and taken back, and what a lost message costs.
#include "gossip/exchange/pair_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/gossip/exchange/harness.h"

namespace starling::exchange_test {
namespace {

using Turns = PairOf<PairTurns>;
using TurnAgent = TestAgentOf<PairTurns>;
using TurnSwarm = TestSwarmOf<PairTurns>;

// One exchange moves both to the middle: the gain is 1, whoever began it.
TEST(PairTurns, AnExchangeCountsWhole) {
  Turns pair;
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(200));
  expect_all(pair.a, 2);
  expect_all(pair.b, 2);
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_EQ(pair.a.pairwise->status().turns, 1u);
  EXPECT_EQ(pair.b.pairwise->status().turns, 1u);
  EXPECT_EQ(pair.a.pairwise->counters().gain_permille, 1000u);
  EXPECT_EQ(pair.b.pairwise->counters().gain_permille, 1000u);
}

// C asks B after B has mixed with A: it gets what B is by then, not the payload that A had. From one old payload of B
// it would be at 5, and the sum off by nothing, but A and C would both have taken what B was.
TEST(PairTurns, EachExchangeUsesTheNewestState) {
  Turns pair;
  TurnAgent& c = pair.swarm.add(3);
  std::fill(c.params.begin(), c.params.end(), 6.0f);
  pair.publish();
  c.boundary();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  ASSERT_TRUE(c.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(400));
  expect_all(pair.a, 2);
  expect_all(pair.b, 4);
  expect_all(c, 4);
}

TEST(PairTurns, AProposalWaitsForTheEndOfAStep) {
  Turns pair;
  pair.publish();
  pair.b.begin_steps();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(150));
  EXPECT_EQ(pair.b.pairwise->waiting(), 1u);
  EXPECT_TRUE(pair.a.pairwise->under_way());
  std::fill(pair.b.params.begin(), pair.b.params.end(), 5.0f);
  pair.b.end_steps();
  pair.swarm.run_for(milliseconds(150));
  expect_all(pair.a, 3);
  expect_all(pair.b, 3);
}

// The steps take too long to wait for. One is served with what was published before them, the next is told until when.
TEST(PairTurns, APayloadLeftBehindServesOneDuringTheSteps) {
  Turns pair;
  TurnAgent& c = pair.swarm.add(3);
  std::fill(c.params.begin(), c.params.end(), 9.0f);
  c.boundary();
  pair.a.boundary();
  pair.b.boundary(pair.swarm.clock.now() + milliseconds(300));
  pair.b.stepping = true;
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(100));
  expect_all(pair.a, 2);
  expect_all(pair.b, 3);
  ASSERT_TRUE(c.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(40));
  const ExchangeReport report = only_report(c);
  EXPECT_EQ(report.outcome, ExchangeOutcome::kBusy);
  EXPECT_EQ(report.free_in, milliseconds(190));
  pair.b.end_steps();
  expect_all(pair.b, 2);
}

TEST(PairTurns, OneExchangeIsOpenInEitherRole) {
  Turns pair;
  TurnAgent& c = pair.swarm.add(3);
  pair.publish();
  c.boundary();
  pair.swarm.network.drop = [](const Flight& flight) { return is<BlockPayload>(flight); };
  ASSERT_TRUE(c.pairwise->propose(pair.b.id));
  EXPECT_FALSE(c.pairwise->propose(pair.a.id));
  pair.swarm.run_for(milliseconds(20));
  EXPECT_TRUE(pair.b.pairwise->under_way());
  EXPECT_FALSE(pair.b.pairwise->propose(pair.a.id)) << "it is in its turn with another";
}

TEST(PairTurns, SharingNothingTellsThoseWhoWait) {
  Turns pair;
  pair.publish();
  pair.b.begin_steps();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(50));
  pair.b.pairwise->publish(nullptr);
  pair.swarm.run_for(milliseconds(20));
  EXPECT_FALSE(pair.a.pairwise->under_way());
  EXPECT_EQ(only_report(pair.a).outcome, ExchangeOutcome::kBusy);
}

TEST(PairTurns, WhoGivesUpLeavesTheQueue) {
  Turns pair;
  pair.publish();
  pair.b.begin_steps();
  pair.swarm.network.drop = [](const Flight& flight) { return is<Abort>(flight); };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(600));   // the longest deadline is 500 ms
  EXPECT_FALSE(pair.a.pairwise->under_way());
  EXPECT_EQ(pair.b.pairwise->waiting(), 0u);
  EXPECT_EQ(pair.b.pairwise->counters().expired, 1u);
}

TEST(PairTurns, AnAbortTakesAProposalOutOfTheQueue) {
  Turns pair;
  pair.publish();
  pair.b.begin_steps();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(50));
  EXPECT_EQ(pair.b.pairwise->waiting(), 1u);
  pair.swarm.deliver({pair.a.id, pair.b.id, 1, Abort{{pair.a.id, 1, 1}}, {}});
  EXPECT_EQ(pair.b.pairwise->waiting(), 0u);
}

// ---- crossing ----

// Both at once: after one latency both are in the middle and free. As two exchanges they would swap their models.
TEST(PairTurns, ProposalsThatCrossBecomeOneExchangeAfterOneLatency) {
  for (int before = 0; before < 2; ++before) {   // with either's proposal standing
    Turns pair;
    pair.publish();
    std::set<PeerId> deciders;
    pair.swarm.network.watch = [&](const Flight& flight) {
      if (is<Commit>(flight)) deciders.insert(flight.from);
    };
    if (before) {   // an odd number of earlier proposals of one side
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
TEST(PairTurns, ACrossingIsTakenBackWhenTheOtherHasMovedOn) {
  Turns pair;
  pair.publish();
  bool lose = true;
  pair.swarm.network.drop = [&](const Flight& flight) {
    return lose && is<Propose>(flight) && flight.from == pair.a.id;
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));   // 1 and 1: the smaller id's stands
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
TEST(PairTurns, ALostProposalThatCrossedIsAskedAgain) {
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
TEST(PairTurns, AnAcceptThatNamesAnotherPayloadEndsACrossing) {
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
    EXPECT_TRUE(pair.swarm.all_idle());
  }
}

// The other proposes anew before it has answered the proposal that crossed its first one. If the first was applied
// already, the second waits for the next payload; else it takes the first one's place. No payload counts twice.
TEST(PairTurns, ASecondCrossingSharesNothingTwice) {
  for (const bool applied : {true, false}) {
    Turns pair;
    pair.publish();
    bool lose = true;
    pair.swarm.network.drop = [&](const Flight& flight) {
      return lose && (flight.from == pair.a.id || (!applied && is<BlockPayload>(flight)));
    };
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));   // 1 and 1: the smaller id's stands
    pair.swarm.run_for(milliseconds(15));
    expect_all(pair.a, applied ? 2 : 1);
    for (uint64_t counter = 2; counter <= 4; ++counter) {
      pair.swarm.deliver({pair.b.id, pair.a.id, 1,
                          Propose{.xid = {pair.b.id, 1, counter}, .deadline_ms = 500, .credit = 4, .payload = 7}, {}});
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
TEST(PairTurns, WhoAcceptsAProposalThatWasGivenUpIsTold) {
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
TEST(PairTurns, TheNextProposalLeavesACrossingAsItIs) {
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

// The other never saw the proposal that crossed its own, which it gives up: it will not accept ours with that payload.
TEST(PairTurns, AnAbortOfTheProposalThatCrossedEndsTheCrossing) {
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
TEST(PairTurns, TheNextProposalOfWhoHasVotedWaitsForTheCrossing) {
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
TEST(PairTurns, TheNextProposalBringsTheLostOneAlong) {
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
TEST(PairTurns, TheNextProposalBringsTheLostVoteAlong) {
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
TEST(PairTurns, ACrossingThatOneSideSeesGetsItsBlocksWhenAsked) {
  Turns pair;
  pair.publish();
  pair.swarm.network.more_delay = [&](const Flight& flight) {   // of B, its proposal overtakes what it sent before
    return flight.from == pair.b.id && !is<Propose>(flight) && !is<BlockPayload>(flight) ? milliseconds(100)
                                                                                         : milliseconds(0);
  };
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));   // counter 1, given up below
  pair.swarm.network.clear();
  pair.swarm.run_for(milliseconds(600));
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(12));   // B has voted and applied
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
TEST(PairTurns, ACrossingEndsAtOnceWhereNoVoteCanFollow) {
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
  ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));   // 1 and 1: the smaller id's stands
  pair.swarm.run_for(milliseconds(22));
  EXPECT_FALSE(pair.a.pairwise->under_way());
  EXPECT_FALSE(pair.b.pairwise->under_way());
  pair.a.boundary();
  EXPECT_EQ(pair.a.params, before) << "taken back";
}

// ---- early, and back ----

TEST(PairTurns, TheAcceptorAppliesAtItsVoteAndIsFree) {
  Turns pair;
  pair.publish();
  pair.swarm.network.drop = [](const Flight& flight) { return is<Have>(flight) || is<Query>(flight); };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(30));
  expect_all(pair.b, 2);
  EXPECT_FALSE(pair.b.pairwise->under_way());
  EXPECT_TRUE(pair.b.pairwise->in_doubt());
}

TEST(PairTurns, WhatIsAbortedIsTakenBackFromTheSameBytes) {
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
TEST(PairTurns, ASmallerDecisionReplacesWhatWasAppliedEarly) {
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
TEST(PairTurns, EachMovesByItsOwnGuard) {
  for (const bool proposes : {true, false}) {
    Unlike swarm;
    swarm.meet(proposes ? swarm.a : swarm.b, proposes ? swarm.b : swarm.a, 12);
    expect_all(swarm.a, proposes ? 1.5 : 10.5);
    expect_all(swarm.b, 6);
    EXPECT_EQ(swarm.a.pairwise->counters().taken_back + swarm.b.pairwise->counters().taken_back, 0u);
    EXPECT_EQ(swarm.a.pairwise->counters().gain_permille, 10'250u);
  }
}

TEST(PairTurns, WhoIsRefusedMayComeNearAllTheSame) {
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

TEST(PairTurns, ARestartOfTheProposerTakesBackWhatItNeverDecided) {
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
TEST(PairTurns, AnAbortAfterTheCommitChangesNothing) {
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

// ---- what a lost message costs ----

template <typename Lost>
void expect_one_repeat() {
  Turns pair;
  for (int i = 0; i < 10; ++i) {   // the usual duration is known
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(300));
  }
  std::fill(pair.a.params.begin(), pair.a.params.end(), 1.0f);
  std::fill(pair.b.params.begin(), pair.b.params.end(), 3.0f);
  pair.publish();
  pair.a.pairwise->take_reports();
  int lost = 0;
  pair.swarm.network.drop = [&](const Flight& flight) { return is<Lost>(flight) && lost++ == 0; };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(300));
  EXPECT_EQ(lost > 0, true);
  expect_all(pair.a, 2);
  expect_all(pair.b, 2);
  EXPECT_EQ(pair.a.pairwise->counters().failed, 0u);
  EXPECT_TRUE(pair.swarm.all_idle());
}
TEST(PairTurns, ALostProposeCostsOneRepeat) { expect_one_repeat<Propose>(); }
TEST(PairTurns, ALostAcceptCostsOneRepeat) { expect_one_repeat<Accept>(); }
TEST(PairTurns, ALostVoteCostsOneRepeat) { expect_one_repeat<Have>(); }
TEST(PairTurns, ALostCommitCostsOneRepeat) { expect_one_repeat<Commit>(); }
TEST(PairTurns, ALostBlockCostsOneRepeat) { expect_one_repeat<BlockPayload>(); }

// Of the acceptor's stream likewise, and of the last block, which no other follows.
TEST(PairTurns, WhoeverLacksABlockAsksForIt) {
  for (const bool of_proposer : {true, false}) {
    Turns pair;
    pair.publish();
    int lost = 0, asked = 0;
    pair.swarm.network.drop = [&](const Flight& flight) {
      const BlockPayload* block = message_as<BlockPayload>(flight.message);
      return block != nullptr && block->index == 3 && (flight.from == pair.a.id) == of_proposer && lost++ == 0;
    };
    pair.swarm.network.watch = [&](const Flight& flight) { asked += is<Missing>(flight); };
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(300));
    expect_all(pair.a, 2);
    expect_all(pair.b, 2);
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(pair.b.pairwise->counters().taken_back, 0u);
  }
}

// How long exchanges take with all the waiting says nothing about how long an answer may take.
TEST(PairTurns, ALostProposeIsRepeatedAfterARoundTrip) {
  Turns pair;
  for (int i = 0; i < 10; ++i) {   // they take 220 ms, 200 of which are B's steps
    pair.publish();
    if (i > 0) pair.b.begin_steps();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(200));
    if (i > 0) pair.b.end_steps();
    pair.swarm.run_for(milliseconds(300));
  }
  std::fill(pair.a.params.begin(), pair.a.params.end(), 1.0f);
  std::fill(pair.b.params.begin(), pair.b.params.end(), 3.0f);
  pair.publish();
  int lost = 0;
  pair.swarm.network.drop = [&](const Flight& flight) { return is<Propose>(flight) && lost++ == 0; };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(80));   // a round trip was 20 ms, and is taken for at most 20 * (17/16)^10 = 37
  expect_all(pair.a, 2);
  EXPECT_EQ(pair.a.pairwise->counters().failed, 0u);
}

// A turn usually takes no time, since the blocks are here. Where some are lost it takes a round trip more.
TEST(PairTurns, ATurnHasTimeForARepeatOnALongLink) {
  Turns pair;
  pair.swarm.network.options = {.control_min = milliseconds(50), .control_max = milliseconds(50),
                                .bulk_min = milliseconds(50), .bulk_max = milliseconds(50)};
  for (int i = 0; i < 10; ++i) {
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(600));
  }
  std::fill(pair.a.params.begin(), pair.a.params.end(), 1.0f);
  std::fill(pair.b.params.begin(), pair.b.params.end(), 3.0f);
  for (const bool of_proposer : {true, false}) {
    pair.publish();
    int lost = 0;
    pair.swarm.network.drop = [&](const Flight& flight) {
      return is<BlockPayload>(flight) && (flight.from == pair.a.id) == of_proposer && lost++ == 0;
    };
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(600));
    expect_all(pair.a, 2);
    expect_all(pair.b, 2);
    std::fill(pair.a.params.begin(), pair.a.params.end(), 1.0f);
    std::fill(pair.b.params.begin(), pair.b.params.end(), 3.0f);
  }
  EXPECT_EQ(pair.a.pairwise->counters().late + pair.a.pairwise->counters().failed, 0u);
}

// The question, or what answers it, may be lost as well. Of the last block, which no other overtakes, likewise.
TEST(PairTurns, WhatIsLostAgainIsAskedForAgain) {
  for (const uint32_t index : {1u, 3u}) {
    for (const bool question : {true, false}) {
      Turns pair;
      pair.publish();
      int blocks = 0, questions = 0;
      pair.swarm.network.drop = [&](const Flight& flight) {
        if (is<Missing>(flight)) return question && questions++ == 0;
        const BlockPayload* block = message_as<BlockPayload>(flight.message);
        const bool its_turn = block != nullptr && block->index == index && flight.from == pair.a.id;
        return its_turn && blocks++ < (question ? 1 : 2);
      };
      ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
      pair.swarm.run_for(milliseconds(300));
      expect_all(pair.a, 2);
      expect_all(pair.b, 2);
      EXPECT_EQ(pair.b.pairwise->counters().taken_back, 0u);
    }
  }
}

// A block that never comes is asked for a few times. The others count.
TEST(PairTurns, ABlockThatStaysLostIsAskedForAFewTimes) {
  Turns pair;
  pair.publish();
  int asked = 0;
  pair.swarm.network.drop = [&](const Flight& flight) {
    return is<BlockPayload>(flight) && message_as<BlockPayload>(flight.message)->index == 1;
  };
  pair.swarm.network.watch = [&](const Flight& flight) { asked += is<Missing>(flight); };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(2000));
  EXPECT_EQ(pair.a.params[0], 2);
  EXPECT_EQ(pair.a.params[16], 1);
  EXPECT_EQ(pair.b.params[16], 3);
  EXPECT_GE(asked, 2) << "each of the two";
  EXPECT_LE(asked, 6);
}

// A link that has become thin, or is busy with other blocks, loses none. Whoever waits for them asks for the last one
// alone, since those before it may be on their way as well. All of them, sent again, would fill the link for as long
// again, and the next exchange would find it full.
TEST(PairTurns, BlocksThatAreLateAreNotSentAgain) {
  PairOf<PairTurns> pair({.params = 256, .block_elements = 16});
  for (int i = 0; i < 10; ++i) {   // they are known to come without a gap
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(300));
  }
  std::fill(pair.a.params.begin(), pair.a.params.end(), 1.0f);
  std::fill(pair.b.params.begin(), pair.b.params.end(), 3.0f);
  pair.publish();
  pair.swarm.network.options.bulk_min = pair.swarm.network.options.bulk_max = milliseconds(90);
  int sent = 0;
  pair.swarm.network.watch = [&](const Flight& flight) { sent += is<BlockPayload>(flight); };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(600));
  expect_all(pair.a, 2);
  expect_all(pair.b, 2);
  EXPECT_GT(sent, 2 * 16) << "they were late enough to be asked for";
  EXPECT_LE(sent, 2 * 16 + 6);
}

// Whoever asks again and again gets each block three times: a small message must not draw megabytes without end.
TEST(PairTurns, BlocksAreSentAgainAFewTimes) {
  Turns pair;
  pair.publish();
  int sent = 0;
  pair.swarm.network.drop = [&](const Flight& flight) { return is<Have>(flight); };
  pair.swarm.network.watch = [&](const Flight& flight) {
    sent += is<BlockPayload>(flight) && flight.from == pair.a.id;
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  for (int i = 0; i < 20; ++i) {
    pair.swarm.run_for(milliseconds(5));
    pair.swarm.deliver({pair.b.id, pair.a.id, 1, Missing{{pair.a.id, 1, 1}, {0x0F}}, {}});
    pair.swarm.deliver({pair.b.id, pair.a.id, 1, Missing{{pair.a.id, 1, 1}, {0xFF, 0xFF}}, {}});
  }
  EXPECT_EQ(sent, 4 + 3 * 4);
}

TEST(PairTurns, NobodyWaitsForAFrozenPartnerBeyondTheDeadline) {
  Turns pair;
  pair.publish();
  pair.swarm.network.drop = [&](const Flight& flight) { return flight.from == pair.b.id; };
  const TimePoint began = pair.swarm.clock.now();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  while (pair.a.pairwise->under_way()) pair.swarm.run_for(milliseconds(1));
  EXPECT_LE(pair.swarm.clock.now() - began, milliseconds(501));
}

// A large model's payloads are not kept while in doubt: its acceptor waits for the decision, but not for ever. They do
// not go with the proposal either: sent in vain they would cost more than a latency.
TEST(PairTurns, TheAcceptorOfALargeModelWaitsForTheWordUntilItsDeadline) {
  constexpr size_t kParams = 1'200'000;   // 4.8 MB
  PairOf<PairTurns> pair({.params = kParams, .block_elements = kParams / 4});
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

// An answer to A's own proposal may be on its way, so the larger id that asks A waits instead of hearing BUSY at once.
// If B does not answer, it might be waiting for somebody who waits for C: then C is told.
TEST(PairTurns, WhoMayCloseARingWaitsForOneRoundTrip) {
  for (const bool b_steps : {false, true}) {
    Turns pair;
    TurnAgent& c = pair.swarm.add(3);
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));   // now the round trip is known: 20 ms
    pair.swarm.run_for(milliseconds(200));
    pair.publish();
    c.boundary();
    std::fill(c.params.begin(), c.params.end(), 6.0f);
    c.boundary();
    if (b_steps) pair.b.begin_steps();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    ASSERT_TRUE(c.pairwise->propose(pair.a.id));
    pair.swarm.run_for(milliseconds(15));
    EXPECT_EQ(pair.a.pairwise->waiting(), 1u);
    pair.swarm.run_for(milliseconds(20));
    if (b_steps) {
      EXPECT_EQ(pair.a.pairwise->waiting(), 0u);
      EXPECT_EQ(only_report(c).outcome, ExchangeOutcome::kBusy);
    } else {
      pair.swarm.run_for(milliseconds(100));
      expect_all(pair.a, 4);
      expect_all(c, 4);
    }
  }
}

// ---- what is counted ----

// Asking until the answer is there, in the exchange until it is decided, and nothing while the trainer may go on.
TEST(PairTurns, TheTimeOfEachPartOfATurnIsCounted) {
  Turns pair;
  pair.publish();
  pair.b.begin_steps();
  pair.swarm.network.more_delay = [](const Flight& flight) {   // the vote comes 7 ms after ACCEPT, A's blocks 5 ms late
    return is<Have>(flight) ? milliseconds(7) : is<BlockPayload>(flight) ? milliseconds(35) : milliseconds(0);
  };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(40));
  pair.b.end_steps();
  ASSERT_TRUE(pair.b.pairwise->serve());   // A's blocks come at 45
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
TEST(PairTurns, ACrossingIsNoLongerAsked) {
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
TEST(PairTurns, WhatIsServedDuringStepsCostsNoTime) {
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

TEST(PairTurns, WhyAProposalWaitsIsCounted) {
  {   // in steps
    Turns pair;
    pair.publish();
    pair.b.begin_steps();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(50));
    const PairwiseCounters b = pair.b.pairwise->counters();
    EXPECT_EQ(b.queued, 1u);
    EXPECT_EQ(b.queued_turn + b.queued_asking, 0u);
  }
  {   // in an exchange that another began, and in an own one
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
  {   // for the answer to the own proposal; a larger id's is told BUSY when it does not come
    Turns pair;
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));   // now the round trip is known: 20 ms
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
TEST(PairTurns, WhatTimeRanOutForIsCounted) {
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

// ---- many ----

// Random proposals among agents that step now and then: no ring of agents waits for itself.
TEST(PairTurns, NoRingOfWaiting) {
  for (uint64_t seed = 1; seed <= 14; ++seed) {
    const size_t count = 2 + seed;
    TurnSwarm swarm({.deadline_max = std::chrono::seconds(100)}, seed);
    swarm.network.options = {.control_min = milliseconds(1), .control_max = milliseconds(20),
                             .bulk_min = milliseconds(1), .bulk_max = milliseconds(20)};
    Rng rng(seed);
    std::vector<TurnAgent*> agents;
    for (uint8_t tag = 1; tag <= count; ++tag) agents.push_back(&swarm.add(tag));
    for (TurnAgent* agent : agents) agent->boundary();
    uint64_t begun = 0;
    for (int beat = 0; beat < 200; ++beat) {
      for (TurnAgent* agent : agents) {
        if (agent->pairwise->under_way()) continue;
        if (agent->stepping) agent->end_steps();
        agent->pump();
        begun += agent->pairwise->propose(agents[rng.below(static_cast<uint32_t>(count))]->id);
        if (!agent->pairwise->under_way() && rng.chance(0.3)) agent->begin_steps();
      }
      swarm.run_for(milliseconds(7));
    }
    EXPECT_GT(begun, 60u);
    for (TurnAgent* agent : agents) {
      if (agent->stepping) agent->end_steps();
      agent->pump();
    }
    swarm.run_for(std::chrono::seconds(20));   // far below the deadline: only turns end the waiting
    for (TurnAgent* agent : agents) {
      EXPECT_FALSE(agent->pairwise->under_way()) << "seed " << seed;
      EXPECT_EQ(agent->pairwise->waiting(), 0u);
    }
    EXPECT_TRUE(swarm.all_idle());
  }
}

// All may meet each other: a schedule.
class Everybody final : public PeerSampler {
 public:
  explicit Everybody(size_t count, size_t first = 1) : rng_(count) {
    for (size_t a = first; a <= count; ++a) all_.push_back(test_peer(static_cast<uint8_t>(a)));
  }
  std::optional<PeerId> choose(const std::vector<PeerId>& except) override {
    std::vector<PeerId> left = all_;
    for (const PeerId& peer : except) std::erase(left, peer);
    if (left.empty()) return std::nullopt;
    return left[rng_.below(static_cast<uint32_t>(left.size()))];
  }
  void met(const PeerId&) override {}
  uint64_t last_met(const PeerId&) override { return 0; }
  std::vector<PeerId> candidates() override { return all_; }
  bool anyone() const override { return true; }
  std::vector<Participant> neighbors(uint64_t) override { return {}; }
  std::vector<Participant> group() override { return {}; }

 private:
  std::vector<PeerId> all_;
  Rng rng_;
};

// Two exchanges at a boundary are due, and agents are apart by a few boundaries. Some propose by the schedule, others,
// whose turns are made, to anybody.
TEST(PairTurns, NoRingOfWaitingByASchedule) {
  for (uint64_t seed = 1; seed <= 13; ++seed) {
    const size_t count = 3 + seed;
    Everybody sampler(count);
    TurnSwarm swarm({.deadline_max = std::chrono::seconds(100), .turns = 2, .sampler = &sampler}, seed);
    swarm.network.options = {.control_min = milliseconds(1), .control_max = milliseconds(20),
                             .bulk_min = milliseconds(1), .bulk_max = milliseconds(20)};
    Rng rng(seed);
    std::vector<TurnAgent*> agents;
    for (uint8_t tag = 1; tag <= count; ++tag) agents.push_back(&swarm.add(tag));
    for (TurnAgent* agent : agents) agent->boundary();
    uint64_t begun = 0;
    for (int beat = 0; beat < 200; ++beat) {
      for (TurnAgent* agent : agents) {
        if (agent->pairwise->under_way()) continue;
        if (agent->stepping) agent->end_steps();
        if (!agent->pairwise->fresh()) agent->boundary();
        begun += agent->pairwise->begin();
        if (!agent->pairwise->under_way() && rng.chance(0.3)) agent->begin_steps();
      }
      swarm.run_for(milliseconds(7));
    }
    EXPECT_GT(begun, 60u);
    for (TurnAgent* agent : agents) {
      if (agent->stepping) agent->end_steps();
      agent->pump();
    }
    swarm.run_for(std::chrono::seconds(20));   // far below the deadline: only turns end the waiting
    for (TurnAgent* agent : agents) {
      EXPECT_FALSE(agent->pairwise->under_way()) << "seed " << seed;
      EXPECT_EQ(agent->pairwise->waiting(), 0u);
    }
    EXPECT_TRUE(swarm.all_idle());
  }
}

// Both are in the same slot: their proposals cross, and each is free after one latency.
TEST(PairTurns, PartnersOfASlotProposeToEachOther) {
  Everybody sampler(4);
  TurnSwarm swarm({.turns = 2, .sampler = &sampler});
  std::vector<TurnAgent*> agents;
  for (uint8_t tag = 1; tag <= 4; ++tag) {
    agents.push_back(&swarm.add(tag));
    std::fill(agents.back()->params.begin(), agents.back()->params.end(), static_cast<float>(4 * tag));
  }
  for (TurnAgent* agent : agents) agent->boundary();
  for (TurnAgent* agent : agents) EXPECT_TRUE(agent->pairwise->begin());
  const auto all_free = [&] {
    return std::none_of(agents.begin(), agents.end(), [](TurnAgent* one) { return one->pairwise->under_way(); });
  };
  int ms = 0;
  for (; ms < 100 && !all_free(); ++ms) swarm.run_for(milliseconds(1));
  EXPECT_LE(ms, 11) << "a latency of 10 ms";
  for (TurnAgent* agent : agents) EXPECT_EQ(agent->pairwise->counters().crossed, 1u);
  EXPECT_EQ(agents[0]->pairwise->status().turns_due, 2u);
}

// While there is a schedule nobody leaves a payload behind for several steps, however long they are: a partner would be
// served with what was before them. Of four agents after each step there is none.
TEST(PairTurns, AfterSeveralStepsTheStateAfterThemIsWaitedFor) {
  for (const uint64_t turns : {1, 2}) {
    Everybody sampler(4);
    TurnSwarm swarm({.turns = turns, .sampler = &sampler});
    TurnAgent& a = swarm.add(1);
    EXPECT_LE(a.pairwise->status().wait_max, milliseconds(250));
    a.boundary();
    EXPECT_EQ(a.pairwise->status().wait_max == Duration::max(), turns == 2);
  }
}

// Four agents with a step of 40 ms, the last one with 160. Each has told the first its time in an exchange.
struct OneSlow {
  explicit OneSlow(uint64_t turns) : swarm({.turns = turns, .sampler = &sampler}) {
    for (uint8_t tag = 1; tag <= 4; ++tag) agents.push_back(&swarm.add(tag));
    for (TurnAgent* agent : agents) agent->boundary();
    for (int step = 0; step < 16; ++step) {
      swarm.run_for(milliseconds(40));
      for (size_t a = 0; a < 4; ++a) {
        if (a < 3 || step % 4 == 3) agents[a]->boundary();
      }
    }
    for (size_t other = 1; other < 4; ++other) {
      EXPECT_TRUE(agents[other]->pairwise->propose(agents[0]->id));
      swarm.run_for(milliseconds(30));
      agents[0]->boundary();
      EXPECT_TRUE(agents[0]->pairwise->propose(agents[other]->id));   // and hears of the first's
      swarm.run_for(milliseconds(30));
      agents[0]->boundary();
    }
  }

  Everybody sampler{4};
  TurnSwarm swarm;
  std::vector<TurnAgent*> agents;
};

// Else whoever had no partner at a boundary would count as slow.
TEST(PairTurns, WhatItSaysOfItsStepsIsOfOneBoundary) {
  Turns pair;
  std::optional<uint64_t> said_us;
  pair.swarm.network.watch = [&](const Flight& flight) {
    if (const Propose* propose = message_as<Propose>(flight.message)) said_us = propose->steps_us;
  };
  for (int i = 0; i < 3; ++i) {
    pair.a.boundary();
    pair.swarm.run_for(milliseconds(120));
    pair.a.skip_boundary();
    pair.a.skip_boundary();
  }
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  EXPECT_EQ(said_us, 40'000u);
}

TEST(PairTurns, ASlowPeerIsNotAskedInItsSlot) {
  OneSlow four(2);
  std::map<PeerId, int> asked;
  four.swarm.network.drop = [&](const Flight& flight) {
    if (flight.from == four.agents[0]->id && is<Propose>(flight)) ++asked[flight.to];
    return false;
  };
  for (int boundary = 0; boundary < 12; ++boundary) {
    for (TurnAgent* agent : four.agents) agent->boundary();
    while (four.agents[0]->pairwise->begin()) {
      four.swarm.run_for(milliseconds(30));
      four.agents[0]->boundary();
    }
    four.swarm.run_for(milliseconds(40));
  }
  EXPECT_EQ(asked.count(four.agents[3]->id), 0u);
  EXPECT_GT(asked[four.agents[1]->id], 2);
  EXPECT_GT(asked[four.agents[2]->id], 2);
}

// It would not be served here in the same slot, so waiting for it would keep all waiting that wait for this agent.
TEST(PairTurns, WhoOwesADecisionIsNotAskedInItsSlot) {
  for (const bool owes : {false, true}) {
    Everybody sampler(4);
    TurnSwarm swarm({.turns = 2, .sampler = &sampler});
    std::vector<TurnAgent*> agents;
    for (uint8_t tag = 1; tag <= 4; ++tag) agents.push_back(&swarm.add(tag));
    const PeerId owing = agents[3]->id;
    int asked = 0;
    swarm.network.drop = [&](const Flight& flight) {
      asked += is<Propose>(flight) && flight.from == agents[0]->id && flight.to == owing;
      return owes && is<Commit>(flight) && flight.from == owing;
    };
    for (TurnAgent* agent : agents) agent->boundary();
    ASSERT_TRUE(agents[3]->pairwise->propose(agents[0]->id));
    swarm.run_for(milliseconds(600));   // longer than any deadline
    for (int boundary = 0; boundary < 12; ++boundary) {
      for (TurnAgent* agent : agents) agent->boundary();
      while (agents[0]->pairwise->begin()) {
        swarm.run_for(milliseconds(30));
        agents[0]->boundary();
      }
      swarm.run_for(milliseconds(40));
    }
    EXPECT_EQ(asked == 0, owes);
  }
}

TEST(PairTurns, WhoIsSlowLeavesAPayloadBehindBeforeStepsOfOneRoundTrip) {
  for (const uint64_t turns : {1, 2}) {
    OneSlow four(turns);
    ASSERT_TRUE(four.agents[3]->pairwise->propose(four.agents[1]->id));   // the third time that it is known
    four.swarm.run_for(milliseconds(30));
    for (TurnAgent* agent : {four.agents[0], four.agents[3]}) agent->boundary();
    const Duration round_trip = milliseconds(20);
    EXPECT_EQ(four.agents[0]->pairwise->status().wait_max, turns == 2 ? Duration::max() : 2 * round_trip);
    EXPECT_EQ(four.agents[3]->pairwise->status().wait_max, round_trip) << "it has no schedule either";
  }
}

// The proposer waits no longer than the longest deadline, so its place in the queue lasts no longer either.
TEST(PairTurns, ADeadlineOfAnHourKeepsNoPlaceInTheQueue) {
  Turns pair;
  pair.publish();
  pair.b.begin_steps();
  const Propose propose{.xid = {test_peer(9), 1, 1}, .deadline_ms = 3'600'000, .credit = 4};
  pair.swarm.deliver({test_peer(9), pair.b.id, 1, propose, {}});
  EXPECT_EQ(pair.b.pairwise->waiting(), 1u);
  pair.swarm.run_for(milliseconds(501));
  EXPECT_EQ(pair.b.pairwise->waiting(), 0u);
}

// What repeats a proposal for ever keeps its first place and its first deadline.
TEST(PairTurns, AProposalRepeatedForEverLeavesTheQueueAllTheSame) {
  Turns pair;
  pair.publish();
  pair.b.begin_steps();
  const Propose propose{.xid = {test_peer(9), 1, 1}, .deadline_ms = 400, .credit = 4};
  for (int i = 0; i < 60; ++i) {
    pair.swarm.deliver({test_peer(9), pair.b.id, 1, propose, {}});
    pair.swarm.run_for(milliseconds(10));
  }
  EXPECT_EQ(pair.b.pairwise->waiting(), 0u);
  EXPECT_EQ(pair.b.pairwise->counters().expired, 1u);
}

TEST(PairTurns, TheQueueIsBounded) {
  Turns pair;
  pair.publish();
  pair.b.begin_steps();
  for (uint64_t i = 0; i < 10'000; ++i) {
    PeerId from = test_peer(9);
    std::memcpy(from.bytes.data(), &i, sizeof i);
    from.bytes[20] = 200;
    const Propose propose{.xid = {from, 1, 1}, .deadline_ms = 500, .credit = 4};
    pair.b.pairwise->handle(from, 1, propose, {});
  }
  EXPECT_EQ(pair.b.pairwise->waiting(), TurnAdmission::kWaitingMax);
  EXPECT_EQ(pair.b.pairwise->counters().busy_sent, 10'000 - TurnAdmission::kWaitingMax);
}

}  // namespace
}  // namespace starling::exchange_test
