// Pairs by turns: what an exchange is, and who waits for one.
#include "gossip/pairs/sync_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "tests/gossip/pairs/pair_harness.h"
#include "tests/gossip/pairs/turn_rings.h"

namespace starling::exchange_test {
namespace {

using Turns = PairOf<SyncPairs>;
using TurnAgent = TestAgentOf<SyncPairs>;
using TurnSwarm = TestSwarmOf<SyncPairs>;

// One exchange moves both to the middle: the gain is 1, whoever began it.
TEST(SyncPairs, AnExchangeCountsWhole) {
  Turns pair;
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(200));
  expect_all(pair.a, 2);
  expect_all(pair.b, 2);
  EXPECT_TRUE(pair.swarm.all_idle());
  EXPECT_EQ(pair.a.pairwise->pairs_status().turns, 1u);
  EXPECT_EQ(pair.b.pairwise->pairs_status().turns, 1u);
  EXPECT_EQ(pair.a.pairwise->counters().gain_permille, 1000u);
  EXPECT_EQ(pair.b.pairwise->counters().gain_permille, 1000u);
}

// C asks B after B has mixed with A: it gets what B is by then, not the payload that A had. From one old payload of B
// it would be at 5, and the sum off by nothing, but A and C would both have taken what B was.
TEST(SyncPairs, EachExchangeUsesTheNewestState) {
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

TEST(SyncPairs, AProposalWaitsForTheEndOfAStep) {
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

// Its blocks are 100 ms on their way. Until they are there B mixes with A, and then C gets what B is by then.
TEST(SyncPairs, WhoseBlocksTakeLongWaitsUntilTheyAreThere) {
  for (const bool last_is_lost : {false, true}) {
    Turns pair;
    TurnAgent& c = pair.swarm.add(3);
    std::fill(c.params.begin(), c.params.end(), 6.0f);
    pair.swarm.network.damage = [&](Flight& flight) {
      if (Propose* propose = message_as<Propose>(flight.message)) propose->blocks_first = flight.from == c.id;
    };
    pair.swarm.network.more_delay = [&](const Flight& flight) {
      return flight.from == c.id && is<BlockPayload>(flight) ? milliseconds(100) : milliseconds(0);
    };
    pair.swarm.network.drop = [&](const Flight& flight) {
      const BlockPayload* block = message_as<BlockPayload>(flight.message);
      return last_is_lost && flight.from == c.id && block != nullptr && block->index == 3;
    };
    pair.publish();
    c.boundary();
    ASSERT_TRUE(c.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(40));
    EXPECT_FALSE(pair.b.pairwise->under_way());
    EXPECT_EQ(pair.b.pairwise->waiting(), 0u) << "nothing that could be served";
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(50));
    expect_all(pair.a, 2);
    expect_all(pair.b, 2);
    pair.swarm.run_for(milliseconds(200));
    expect_all(pair.b, last_is_lost ? 2 : 4);
    expect_all(c, last_is_lost ? 6 : 4);
  }
}

// A payload of more blocks than are held for a proposal that waits does not go with it: its last one would never come.
TEST(SyncPairs, AProposalOfManyBlocksWaitsForNoneOfThem) {
  constexpr size_t kBlocks = EarlyPairBlocks::kBlocksPerPeerMax + 1;
  for (const size_t blocks : {kBlocks - 1, kBlocks}) {
    Turns pair({.params = 4 * blocks, .block_elements = 4});
    pair.publish();
    bool accepted = false, early = false;
    pair.swarm.network.watch = [&](const Flight& flight) {
      accepted |= is<Accept>(flight);
      early |= is<BlockPayload>(flight) && !accepted;
    };
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(400));
    EXPECT_EQ(early, blocks < kBlocks);
    expect_all(pair.a, 2);
    expect_all(pair.b, 2);
  }
}

// Of two.
class TheOther final : public PeerSampler {
 public:
  std::optional<PeerId> choose(const std::vector<PeerId>& except) override {
    return except.empty() ? std::optional(test_peer(2)) : std::nullopt;
  }
  void met(const PeerId&) override {}
  uint64_t last_met(const PeerId&) override { return 0; }
  std::vector<PeerId> candidates() override { return {test_peer(2)}; }
  std::vector<Participant> neighbors(uint64_t) override { return {}; }
  std::vector<Participant> group() override { return {}; }
};

// With the steps of the first payloads they cannot tell how far apart they are, however often they meet.
TEST(SyncPairs, WhatAWrapTaughtIsInTheNextPayloadOfTheSameBoundary) {
  TheOther other;
  Turns pair({.codec = CodecKind::kModulo8, .sampler = &other});
  for (size_t i = 0; i < pair.a.params.size(); ++i) {
    pair.a.params[i] = 1 + 0.01f * static_cast<float>(i);
    pair.b.params[i] = pair.a.params[i] + 10;
  }
  pair.publish();
  Boundary boundary{.number = 1, .published = true};
  for (Due due = Due::kWait; due == Due::kWait || due == Due::kPublish; due = pair.a.pairwise->next(boundary)) {
    if (due == Due::kPublish) pair.a.boundary();
    pair.swarm.run_for(milliseconds(20));
  }
  pair.a.apply();
  EXPECT_EQ(pair.a.pairwise->counters().done, 1u);
  EXPECT_NEAR(pair.a.params[1], 6.01, 0.1);
  EXPECT_NEAR(pair.b.params[1], 6.01, 0.1);
}

// The steps take too long to wait for. One is served with what was published before them, the next is told until when.
TEST(SyncPairs, APayloadLeftBehindServesOneDuringTheSteps) {
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

TEST(SyncPairs, OneExchangeIsOpenInEitherRole) {
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

TEST(SyncPairs, SharingNothingTellsThoseWhoWait) {
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

TEST(SyncPairs, WhoGivesUpLeavesTheQueue) {
  Turns pair;
  pair.publish();
  pair.b.begin_steps();
  pair.swarm.network.drop = [](const Flight& flight) { return is<Abort>(flight); };
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(600));  // the longest deadline is 500 ms
  EXPECT_FALSE(pair.a.pairwise->under_way());
  EXPECT_EQ(pair.b.pairwise->waiting(), 0u);
  EXPECT_EQ(pair.b.pairwise->counters().expired, 1u);
}

// It waited as long as it had said, and gives up while ACCEPT is on its way. Once B knows how long that takes, it does
// not begin such a turn.
TEST(SyncPairs, WhoWaitedForItsWholeDeadlineIsNotBlamed) {
  for (const bool round_trip_known : {false, true}) {
    Turns pair;
    pair.publish();
    if (round_trip_known) {
      ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
      pair.swarm.run_for(milliseconds(200));
      pair.publish();
    }
    pair.b.begin_steps();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    pair.swarm.run_for(milliseconds(495));  // its deadline is 500 ms
    pair.b.end_steps();
    pair.swarm.run_for(milliseconds(100));
    EXPECT_FALSE(pair.b.pairwise->under_way());
    EXPECT_EQ(pair.b.pairwise->counters().accepted, round_trip_known ? 0u : 1u);
    EXPECT_EQ(pair.b.pairwise->counters().failed, round_trip_known ? 0u : 1u);
    EXPECT_EQ(pair.b.pairwise->counters().undecided, 0u);
  }
}

TEST(SyncPairs, AnAbortTakesAProposalOutOfTheQueue) {
  Turns pair;
  pair.publish();
  pair.b.begin_steps();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(50));
  EXPECT_EQ(pair.b.pairwise->waiting(), 1u);
  pair.swarm.deliver({pair.a.id, pair.b.id, 1, Abort{{pair.a.id, 1, 1}}, {}});
  EXPECT_EQ(pair.b.pairwise->waiting(), 0u);
}

// Its next life knows nothing of it. What that one proposes keeps its place.
TEST(SyncPairs, WhoHasEndedLeavesTheQueue) {
  Turns pair;
  pair.publish();
  pair.b.begin_steps();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(50));
  ASSERT_EQ(pair.b.pairwise->waiting(), 1u);
  pair.b.pairwise->forget(pair.a.id, 1);
  EXPECT_EQ(pair.b.pairwise->waiting(), 1u) << "of the life that it is";
  pair.b.pairwise->forget(pair.a.id, 2);
  EXPECT_EQ(pair.b.pairwise->waiting(), 0u);
  EXPECT_EQ(pair.swarm.network.bytes_held_by(pair.b.id), 0u) << "and its blocks";
}

// ---- waiting ----

TEST(SyncPairs, NobodyWaitsForAFrozenPartnerBeyondTheDeadline) {
  Turns pair;
  pair.publish();
  pair.swarm.network.drop = [&](const Flight& flight) { return flight.from == pair.b.id; };
  const TimePoint began = pair.swarm.clock.now();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  while (pair.a.pairwise->under_way()) pair.swarm.run_for(milliseconds(1));
  EXPECT_LE(pair.swarm.clock.now() - began, milliseconds(501));
}

// An answer to A's own proposal may be on its way, so the larger id that asks A waits instead of hearing BUSY at once.
// If B does not answer, it might be waiting for somebody who waits for C: then C is told.
TEST(SyncPairs, WhoMayCloseARingWaitsForOneRoundTrip) {
  for (const bool b_steps : {false, true}) {
    Turns pair;
    TurnAgent& c = pair.swarm.add(3);
    pair.publish();
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));  // now the round trip is known: 20 ms
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

// Random proposals among agents that step now and then: no ring of agents waits for itself.
TEST(SyncPairs, NoRingOfWaiting) {
  for (uint64_t seed = 1; seed <= 14; ++seed) {
    TurnSwarm swarm({.deadline_min = kFarAway, .deadline_max = kFarAway}, seed);
    expect_no_ring_of_waiting(swarm, 2 + seed, seed, [](TurnAgent& agent, const auto& agents, Rng& rng) {
      agent.pump();
      return agent.pairwise->propose(agents[rng.below(static_cast<uint32_t>(agents.size()))]->id);
    });
  }
}

// The proposer waits no longer than the longest deadline, so its place in the queue lasts no longer either.
TEST(SyncPairs, ADeadlineOfAnHourKeepsNoPlaceInTheQueue) {
  Turns pair;
  pair.publish();
  pair.b.begin_steps();
  const Propose propose{.xid = {test_peer(9), 1, 1}, .deadline_ms = 3'600'000, .credit = 4};
  pair.swarm.deliver({test_peer(9), pair.b.id, 1, propose, {}});
  EXPECT_EQ(pair.b.pairwise->waiting(), 1u);
  pair.swarm.run_for(milliseconds(501));
  EXPECT_EQ(pair.b.pairwise->waiting(), 0u);
}

// Nor does its turn: the acceptor is free again after what its turns take, long before the longest deadline.
TEST(SyncPairs, ADeadlineOfAnHourMakesNoTurnLonger) {
  Turns pair;
  for (int i = 0; i < 20; ++i) {  // what turns take is known
    pair.publish();
    ASSERT_TRUE(pair.b.pairwise->propose(pair.a.id));
    pair.swarm.run_for(milliseconds(100));
  }
  pair.publish();
  const Propose propose{.xid = {test_peer(9), 1, 1}, .deadline_ms = 3'600'000, .credit = 4};
  pair.swarm.deliver({test_peer(9), pair.b.id, 1, propose, {}});
  EXPECT_TRUE(pair.b.pairwise->under_way());
  pair.swarm.run_for(milliseconds(200));
  EXPECT_FALSE(pair.b.pairwise->under_way());
  EXPECT_EQ(pair.b.pairwise->counters().undecided, 1u);
}

// Before any turn is measured its deadline is the longest. A peer that stops in mid-payload costs a window of that.
TEST(SyncPairs, APeerThatStopsInMidPayloadCostsAWindowOfTheLongestDeadline) {
  for (const bool stops_as_proposer : {true, false}) {
    Turns pair(
        {.params = 8 << 20, .block_elements = 1 << 18, .deadline_max = std::chrono::seconds(1000)});  // four windows
    pair.swarm.network.more_delay = [](const Flight& flight) {
      return is<BlockPayload>(flight) ? milliseconds(100) : milliseconds(0);
    };
    bool stopped = false;
    pair.swarm.network.drop = [&](const Flight& flight) {
      const BlockPayload* block = message_as<BlockPayload>(flight.message);
      stopped |= block != nullptr && block->index == 20;
      return stopped && flight.from == pair.a.id;
    };
    pair.publish();
    ASSERT_TRUE((stops_as_proposer ? pair.a : pair.b).pairwise->propose((stops_as_proposer ? pair.b : pair.a).id));
    pair.swarm.run_for(std::chrono::seconds(240));
    ASSERT_TRUE(stopped);
    EXPECT_TRUE(pair.b.pairwise->under_way()) << "its link may be slow";
    pair.swarm.run_for(std::chrono::seconds(30));
    EXPECT_FALSE(pair.b.pairwise->under_way());
  }
}

// A peer that sends less than that pace ends the exchange, though something comes all the time.
TEST(SyncPairs, APeerThatTricklesCostsHardlyMore) {
  Turns pair({.params = 8 << 20, .block_elements = 1 << 18, .deadline_max = std::chrono::seconds(1000)});
  Duration later{};  // block by block, 100 s each, where the pace is one in 31
  pair.swarm.network.more_delay = [&](const Flight& flight) {
    if (!is<BlockPayload>(flight) || flight.from != pair.a.id) return milliseconds(0);
    later += std::chrono::seconds(100);
    return std::chrono::duration_cast<milliseconds>(later);
  };
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(std::chrono::seconds(400));
  EXPECT_FALSE(pair.b.pairwise->under_way());
}

// Of an exchange that is decided a repeated proposal draws one short answer each time, and no block.
TEST(SyncPairs, AProposalRepeatedAfterItsExchangeSharesNothingAgain) {
  Turns pair;
  std::optional<Propose> proposed;
  size_t answers = 0, blocks = 0;
  pair.swarm.network.watch = [&](const Flight& flight) {
    if (const Propose* propose = message_as<Propose>(flight.message)) proposed = *propose;
    if (flight.from != pair.b.id) return;
    (is<BlockPayload>(flight) ? blocks : answers) += 1;
  };
  pair.publish();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(200));
  expect_all(pair.b, 2);
  ASSERT_TRUE(proposed);
  answers = blocks = 0;
  for (int i = 0; i < 60; ++i) {
    pair.swarm.deliver({pair.a.id, pair.b.id, 1, *proposed, {}});
    pair.swarm.run_for(milliseconds(10));
  }
  EXPECT_EQ(answers, 60u);
  EXPECT_EQ(blocks, 0u);
  EXPECT_EQ(pair.b.pairwise->counters().accepted, 1u);
  expect_all(pair.a, 2);
  expect_all(pair.b, 2);
  EXPECT_TRUE(pair.swarm.all_idle());
}

// What repeats a proposal for ever keeps its first place and its first deadline.
TEST(SyncPairs, AProposalRepeatedForEverLeavesTheQueueAllTheSame) {
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

TEST(SyncPairs, TheQueueIsBounded) {
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
