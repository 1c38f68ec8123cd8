// What one peer may take of another's turns.
#include "gossip/pairs/fair_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/gossip/pairs/pair_harness.h"

namespace starling::exchange_test {
namespace {

using Turns = PairOf<SyncPairs>;
using TurnAgent = TestAgentOf<SyncPairs>;

TEST(FairShare, OneInAFewBoundariesAndSomeMayFollowEachOther) {
  for (const auto& [candidates, every] : {std::pair(1, 1), {2, 2}, {3, 3}, {4, 3}, {7, 6}, {200, 16}}) {
    FairShare shares;
    int served = 0;
    for (uint64_t boundary = 100; boundary < 340; ++boundary) {
      for (int again = 0; again < 5; ++again) {
        if (!shares.may_be_served(test_peer(1), boundary, static_cast<size_t>(candidates))) continue;
        shares.served(test_peer(1), boundary, static_cast<size_t>(candidates));
        ++served;
      }
    }
    EXPECT_EQ(served, 239 / every + 1 + (candidates < 4 ? 1 : 2)) << candidates;
    EXPECT_TRUE(shares.may_be_served(test_peer(2), 340, 7));
  }
}

// Of many, what this agent began with it counts too, however much that was: the peer then waits for its turn.
TEST(FairShare, OfManyAnExchangeOfOursCountsToo) {
  for (const size_t candidates : {3, 7}) {
    FairShare shares;
    for (int i = 0; i < 4; ++i) shares.met(test_peer(1), 100, candidates);
    EXPECT_EQ(shares.may_be_served(test_peer(1), 100, candidates), candidates == 3);
    EXPECT_TRUE(shares.may_be_served(test_peer(1), 112, candidates));
  }
}

// Among four, an honest peer comes every third boundary, now one earlier and now one later.
TEST(FairShare, WhoComesUnevenlyKeepsItsShare) {
  FairShare shares;
  for (const uint64_t boundary : {10, 12, 16, 18, 22, 24}) {
    EXPECT_TRUE(shares.may_be_served(test_peer(1), boundary, 3)) << boundary;
    shares.served(test_peer(1), boundary, 3);
  }
}

// Some in a row are free: any network loses frames.
void lose_the_free_ones(FairShare& shares, const PeerId& peer, bool initiated, TimePoint now) {
  for (uint32_t i = 0; i < FairShare::kFree; ++i) shares.undecided(peer, initiated, true, now, milliseconds(100));
}

TEST(FairShare, AnUndecidedTurnCostsTwiceAsMuchEachTime) {
  FairShare shares;
  TimePoint now{std::chrono::hours(1)};
  const auto not_asked = [&] { return !shares.not_asked(now).empty(); };
  lose_the_free_ones(shares, test_peer(1), false, now);
  EXPECT_FALSE(not_asked());
  EXPECT_LE(shares.not_served_until(test_peer(1)), now);
  for (int j = 0; j <= 12; ++j) {
    const Duration lasts = (1 << std::min(j, 8)) * milliseconds(100);
    shares.undecided(test_peer(1), false, true, now, milliseconds(100));
    EXPECT_EQ(shares.not_served_until(test_peer(1)) - now, lasts);
    EXPECT_TRUE(not_asked());
    now += lasts;
    EXPECT_FALSE(not_asked());
  }
  for (const bool ours : {true, false}) {  // only what it let end itself is forgiven by the next
    shares.decided(test_peer(1), ours);
    if (!ours) lose_the_free_ones(shares, test_peer(1), false, now);
    shares.undecided(test_peer(1), false, true, now, milliseconds(100));
    EXPECT_EQ(shares.not_served_until(test_peer(1)) - now, ours ? milliseconds(25'600) : milliseconds(100));
    now += std::chrono::hours(1);
  }
}

// What all peers let end, the network does. The one that lets more of them end than most is barred.
TEST(FairShare, WhatTheMedianOfTheOthersLosesIsFree) {
  FairShare shares;
  const TimePoint now{std::chrono::hours(1)};
  for (uint8_t tag = 1; tag <= 5; ++tag) {
    for (int i = 0; i < 3; ++i) shares.undecided(test_peer(tag), true, true, now, milliseconds(100));
  }
  for (uint32_t i = 0; i < FairShare::kFree; ++i) {
    shares.undecided(test_peer(5), true, true, now, milliseconds(100));
  }
  EXPECT_LE(shares.not_served_until(test_peer(5)), now);  // the median of the others has three
  shares.undecided(test_peer(5), true, true, now, milliseconds(100));
  EXPECT_EQ(shares.not_served_until(test_peer(5)), now + milliseconds(100));
}

// A crowd that lets many turns end makes none of them free for one more.
TEST(FairShare, WhatTheOthersLoseIsFreeUpToThree) {
  FairShare shares;
  const TimePoint now{std::chrono::hours(1)};
  for (uint8_t tag = 1; tag <= 5; ++tag) {
    for (int i = 0; i < 20; ++i) shares.undecided(test_peer(tag), true, true, now, milliseconds(100));
  }
  for (uint32_t i = 0; i < FairShare::kFree + FairShare::kUsualMax; ++i) {
    shares.undecided(test_peer(6), true, true, now, milliseconds(100));
  }
  EXPECT_LE(shares.not_served_until(test_peer(6)), now);
  shares.undecided(test_peer(6), true, true, now, milliseconds(100));
  EXPECT_EQ(shares.not_served_until(test_peer(6)), now + milliseconds(100));
}

// It may have a long queue, or be in its steps: that is no reason to let its own proposals wait.
TEST(FairShare, WhoDoesNotAnswerIsNotAskedButServed) {
  FairShare shares;
  const TimePoint now{std::chrono::hours(1)};
  lose_the_free_ones(shares, test_peer(1), true, now);
  shares.undecided(test_peer(1), true, false, now, milliseconds(100));
  EXPECT_LE(shares.not_served_until(test_peer(1)), now);
  shares.served(test_peer(2), 1, 8);
  EXPECT_EQ(shares.not_asked(now), std::vector{test_peer(1)});
}

TEST(FairShare, RemembersABoundedNumberOfPeers) {
  FairShare shares;
  const auto id_of = [](uint64_t i) {
    PeerId id = test_peer(1);
    std::memcpy(id.bytes.data(), &i, sizeof i);
    return id;
  };
  for (uint64_t i = 0; i < 3 * kMembersMax; ++i) {
    for (uint32_t j = 0; j <= FairShare::kFree + FairShare::kUsualMax; ++j) {
      shares.undecided(id_of(i), true, true, TimePoint{}, std::chrono::hours(1));
    }
  }
  const size_t barred = shares.not_asked(TimePoint{}).size();
  EXPECT_GT(barred, 0u);
  EXPECT_LE(barred, kMembersMax);
}

class ByList : public PeerSampler {
 public:
  std::vector<PeerId> longest_ago_first;
  std::vector<PeerId> met_now;
  std::vector<std::vector<PeerId>> not_chosen;  // at each choice

  std::optional<PeerId> choose(const std::vector<PeerId>& except) override {
    not_chosen.push_back(except);
    return std::nullopt;
  }
  void met(const PeerId& peer) override { met_now.push_back(peer); }
  uint64_t last_met(const PeerId& peer) override {
    const auto at = std::find(longest_ago_first.begin(), longest_ago_first.end(), peer);
    return static_cast<uint64_t>(at - longest_ago_first.begin());
  }
  std::vector<PeerId> candidates() override { return {test_peer(2), test_peer(3)}; }
  std::vector<Participant> neighbors(uint64_t) override { return {}; }
  std::vector<Participant> group() override { return {}; }
};

class OfMany final : public ByList {
 public:
  std::vector<PeerId> candidates() override {
    std::vector<PeerId> all;
    for (uint8_t tag = 1; tag <= 7; ++tag) all.push_back(test_peer(tag));
    return all;
  }
};

// Among many this agent's own exchanges with a peer count to that peer's share: after three it is told BUSY.
TEST(FairShare, AmongManyWhoWasAskedOftenIsNotServedBesides) {
  OfMany sampler;
  TestSwarmOf<SyncPairs> swarm({.sampler = &sampler});
  TurnAgent& a = swarm.add(1);
  TurnAgent& b = swarm.add(2);
  a.boundary();
  b.boundary();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(a.pairwise->propose(b.id));
    swarm.run_for(milliseconds(200));
  }
  EXPECT_EQ(a.pairwise->counters().done, 3u);
  ASSERT_TRUE(b.pairwise->propose(a.id));
  swarm.run_for(milliseconds(200));
  EXPECT_EQ(a.pairwise->counters().over_share, 1u);
  EXPECT_EQ(b.pairwise->counters().busy_received, 1u);
}

// Of those that wait, the one met longest ago is served first, whoever came first.
TEST(FairShare, TheOneMetLongestAgoIsServedFirst) {
  for (const bool a_first : {true, false}) {
    ByList sampler;
    TestSwarmOf<SyncPairs> swarm({.sampler = &sampler});
    TurnAgent& a = swarm.add(1);
    TurnAgent& b = swarm.add(2);
    TurnAgent& c = swarm.add(3);
    for (TurnAgent* agent : {&a, &b, &c}) agent->boundary();
    c.begin_steps();
    ASSERT_TRUE(a.pairwise->propose(c.id));
    swarm.run_for(milliseconds(5));
    ASSERT_TRUE(b.pairwise->propose(c.id));
    swarm.run_for(milliseconds(25));
    ASSERT_EQ(c.pairwise->waiting(), 2u);
    sampler.longest_ago_first = a_first ? std::vector{a.id, b.id} : std::vector{b.id, a.id};
    sampler.met_now.clear();
    c.end_steps();
    ASSERT_TRUE(c.pairwise->serve());
    c.worker.run_completions();
    EXPECT_EQ(sampler.met_now, std::vector<PeerId>{a_first ? a.id : b.id}) << "it applies at its vote";
  }
}

// A refused or failed attempt counts as met: else the next draw would ask the same agent.
TEST(FairShare, WhatCameToNothingCountsAsMet) {
  ByList sampler;
  TestSwarmOf<SyncPairs> swarm({.sampler = &sampler});
  TurnAgent& a = swarm.add(1);
  TurnAgent& b = swarm.add(2);
  a.boundary();
  ASSERT_TRUE(a.pairwise->propose(b.id));  // it shares nothing yet: BUSY
  swarm.run_for(milliseconds(50));
  EXPECT_EQ(sampler.met_now, std::vector<PeerId>{b.id});

  swarm.network.drop = [&](const Flight& flight) { return flight.from == b.id; };
  sampler.met_now.clear();
  ASSERT_TRUE(a.pairwise->propose(b.id));  // it is silent
  swarm.run_for(milliseconds(600));
  EXPECT_EQ(sampler.met_now, std::vector<PeerId>{b.id});

  swarm.network.drop = [](const Flight& flight) { return is<BlockPayload>(flight) || is<Abort>(flight); };
  b.boundary();
  sampler.met_now.clear();
  ASSERT_TRUE(a.pairwise->propose(b.id));  // its turn ends undecided, at either end
  swarm.run_for(milliseconds(1200));
  EXPECT_EQ(std::set<PeerId>(sampler.met_now.begin(), sampler.met_now.end()), (std::set<PeerId>{a.id, b.id}));
  EXPECT_EQ(sampler.met_now.size(), 2u) << "once each";
}

// Its blocks never come: the turn ends at the deadline, and the next proposals are told to come back later.
TEST(FairShare, WhoLetsATurnEndIsToldBusy) {
  Turns pair;
  pair.publish();
  pair.swarm.network.drop = [](const Flight& flight) { return is<BlockPayload>(flight); };
  for (uint32_t i = 0; i <= FairShare::kFree; ++i) {
    ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
    while (pair.a.pairwise->under_way() || pair.b.pairwise->under_way()) pair.swarm.run_for(milliseconds(5));
    pair.publish();
  }
  pair.swarm.network.drop = nullptr;
  pair.a.pairwise->take_reports();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(25));
  const ExchangeReport report = only_report(pair.a);
  EXPECT_EQ(report.outcome, ExchangeOutcome::kBusy);
  EXPECT_GT(report.free_in, milliseconds(100));
  EXPECT_LE(report.free_in, milliseconds(500));
  pair.swarm.run_for(milliseconds(500));
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(100));
  expect_all(pair.a, 2);
}

// The boundary of `b` has ended without an exchange, and what it leaves for its steps is being encoded.
TEST(SyncPairs, WhoAsksWhileThePayloadOfTheStepsIsEncodedIsServedWithIt) {
  ByList nobody;
  Turns pair({.sampler = &nobody});
  pair.publish();
  pair.b.begin_steps();
  Boundary boundary{.number = 2, .steps = std::chrono::seconds(1)};
  ASSERT_EQ(pair.b.pairwise->next(boundary), Due::kPublish);
  pair.b.boundary();
  boundary.published = true;
  ASSERT_EQ(pair.b.pairwise->next(boundary), Due::kPublishForSteps);
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(20));
  ASSERT_EQ(pair.b.pairwise->waiting(), 1u);
  pair.b.boundary(pair.swarm.clock.now() + boundary.steps);
  ASSERT_EQ(pair.b.pairwise->next(boundary), Due::kSteps);
  pair.swarm.run_for(milliseconds(100));
  expect_all(pair.a, 2);
}

// What is left for the time of its steps is spent. Who had it and who came too late are told of later steps, each of
// others, and ask somebody else until then, if there is anybody.
TEST(FairShare, WhoIsToldToComeLaterHasStepsOfItsOwn) {
  ByList sampler;
  TestSwarmOf<SyncPairs> swarm({.sampler = &sampler});
  TurnAgent& a = swarm.add(1);
  TurnAgent& b = swarm.add(2);
  TurnAgent& c = swarm.add(3);
  std::map<PeerId, Duration> told;
  swarm.network.drop = [&](const Flight& flight) {
    const Busy* busy = message_as<Busy>(flight.message);
    if (busy != nullptr) told[flight.to] = swarm.clock.now() + milliseconds(busy->free_in_ms) - TimePoint{};
    return false;
  };
  for (TurnAgent* agent : {&a, &b}) {
    agent->boundary();
    c.boundary();
    ASSERT_TRUE(agent->pairwise->propose(c.id));
    swarm.run_for(milliseconds(60));
  }
  for (TurnAgent* agent : {&a, &b}) agent->boundary();
  const TimePoint next_at = swarm.clock.now() + milliseconds(500);
  c.boundary(next_at, milliseconds(200));  // an evaluation comes first, and once only
  c.stepping = true;
  told.clear();
  ASSERT_TRUE(a.pairwise->propose(c.id));
  swarm.run_for(milliseconds(15));
  ASSERT_TRUE(b.pairwise->propose(c.id));
  swarm.run_for(milliseconds(60));
  ASSERT_EQ(told.size(), 2u);
  const Duration first = std::min(told[a.id], told[b.id]), second = std::max(told[a.id], told[b.id]);
  EXPECT_GE(first, next_at - TimePoint{});
  EXPECT_EQ(second - first, milliseconds(300));

  sampler.not_chosen.clear();
  EXPECT_FALSE(a.pairwise->begin());
  ASSERT_EQ(sampler.not_chosen.size(), 2u) << "if there is nobody else, it is asked all the same";
  EXPECT_EQ(sampler.not_chosen[0], std::vector{c.id});
  EXPECT_EQ(sampler.not_chosen[1], std::vector<PeerId>());
}

// One peer keeps to its last appointment, and steps that are over are free for others.
TEST(FairShare, EachHasAnAppointmentOfItsOwn) {
  FairShare shares;
  EXPECT_EQ(shares.appointment(test_peer(1), 4, 0), 5u);
  EXPECT_EQ(shares.appointment(test_peer(2), 4, 0), 6u);
  EXPECT_EQ(shares.appointment(test_peer(3), 5, 0), 7u);
  EXPECT_EQ(shares.appointment(test_peer(1), 4, 0), 5u);
  EXPECT_EQ(shares.appointment(test_peer(1), 7, 0), 8u);
  EXPECT_EQ(shares.appointment(test_peer(4), 7, 0), 9u);
}

TEST(FairShare, AnAppointmentIsWithinItsShare) {
  FairShare shares;
  while (shares.may_be_served(test_peer(1), 5, 7)) shares.served(test_peer(1), 5, 7);
  const uint64_t at = shares.appointment(test_peer(1), 5, 7);
  EXPECT_TRUE(shares.may_be_served(test_peer(1), at, 7));
  EXPECT_FALSE(shares.may_be_served(test_peer(1), at - 1, 7));
}

TEST(FairShare, AppointmentsReachSoFarOnly) {
  FairShare shares;
  for (uint8_t i = 0; i < 3 * FairShare::kAheadMax; ++i) {
    EXPECT_LE(shares.appointment(test_peer(i), 4, 0), 5 + FairShare::kAheadMax);
  }
}

// An ABORT ends all that its sender proposed before, also what still waits for its turn.
TEST(FairShare, WhatWaitsIsNotServedAfterALaterOneWasAborted) {
  Turns pair;
  pair.publish();
  pair.b.begin_steps();
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(30));
  ASSERT_EQ(pair.b.pairwise->waiting(), 1u);
  pair.swarm.deliver(
      {.from = pair.a.id, .to = pair.b.id, .generation = 1, .message = Abort{{pair.a.id, 1, 1'000'000}}});
  pair.b.end_steps();
  EXPECT_FALSE(pair.b.pairwise->serve());
  EXPECT_EQ(pair.b.pairwise->waiting(), 0u);
}

// A decision that does not come keeps an exchange in doubt. Nobody may open more and more of them.
TEST(FairShare, WhoNeverCommitsHasTwoOpenDoubts) {
  Turns pair;
  pair.publish();
  pair.swarm.network.drop = [](const Flight& flight) { return is<Commit>(flight); };
  for (int i = 0; i < 100; ++i) {
    (void)pair.a.pairwise->propose(pair.b.id);
    pair.swarm.run_for(milliseconds(45));
    pair.a.pump();
  }
  EXPECT_LE(pair.b.pairwise->counters().accepted, 2u);
  EXPECT_GT(pair.b.pairwise->counters().busy_sent, 50u);
  pair.swarm.network.drop = nullptr;
  pair.swarm.run_for(std::chrono::seconds(60));
  EXPECT_TRUE(pair.swarm.all_idle()) << "what was decided arrives in the end";
  ASSERT_TRUE(pair.a.pairwise->propose(pair.b.id));
  pair.swarm.run_for(milliseconds(200));
  EXPECT_GE(pair.b.pairwise->counters().accepted, 3u);
}

class TheOnlyOne final : public ByList {
 public:
  std::optional<PeerId> choose(const std::vector<PeerId>& except) override {
    const bool excepted = std::find(except.begin(), except.end(), test_peer(2)) != except.end();
    return excepted ? std::nullopt : std::optional(test_peer(2));
  }
  std::vector<PeerId> candidates() override { return {test_peer(2)}; }
};

// Not even if there is nobody else: its next turn is as much in vain.
TEST(FairShare, WhoNeverVotesIsNotAskedForADeadline) {
  TheOnlyOne sampler;
  TestSwarmOf<SyncPairs> swarm({.sampler = &sampler});
  TurnAgent& a = swarm.add(1);
  TurnAgent& b = swarm.add(2);
  swarm.network.drop = [](const Flight& flight) { return is<Have>(flight); };
  for (uint32_t i = 0; i <= FairShare::kFree; ++i) {
    a.boundary();
    b.boundary();
    ASSERT_TRUE(a.pairwise->begin()) << i << " are free";
    while (a.pairwise->under_way()) swarm.run_for(milliseconds(5));
  }
  EXPECT_EQ(a.pairwise->counters().undecided, FairShare::kFree + 1);
  a.boundary();
  EXPECT_FALSE(a.pairwise->begin());
  swarm.run_for(milliseconds(480));
  EXPECT_FALSE(a.pairwise->begin());
  swarm.run_for(milliseconds(40));
  EXPECT_TRUE(a.pairwise->begin());
}

// One that never voted on a proposal here may never do so, and all wait for who waits for it. One that did once may
// have lost a frame.
TEST(FairShare, WhoNeverVotedHasABriefTurn) {
  const auto turn_without_a_vote = [](bool voted_before) {
    TestSwarmOf<SyncPairs> swarm({});
    TurnAgent& a = swarm.add(1);
    TurnAgent& b = swarm.add(2);
    TurnAgent& c = swarm.add(3);
    const auto ask = [&](TurnAgent& peer) {
      a.boundary();
      peer.boundary();
      EXPECT_TRUE(a.pairwise->propose(peer.id));
      const TimePoint began = swarm.clock.now();
      while (a.pairwise->under_way()) swarm.run_for(milliseconds(1));
      const Duration took = swarm.clock.now() - began;
      swarm.run_for(milliseconds(100));
      return took;
    };
    ask(b);
    if (voted_before) ask(c);
    swarm.network.drop = [](const Flight& flight) { return is<Have>(flight); };
    return ask(c);
  };
  const Duration brief = turn_without_a_vote(false), usual = turn_without_a_vote(true);
  EXPECT_GE(brief, milliseconds(40)) << "a round trip, and time to ask again";
  EXPECT_LT(brief, milliseconds(100));
  EXPECT_GT(usual, milliseconds(400));
}

// Likewise of blocks with a proposal.
TEST(FairShare, WhoseProposalsNeverCameToAnythingHasABriefTurn) {
  const auto turn_without_blocks = [](bool decided_before) {
    TestSwarmOf<SyncPairs> swarm({});
    TurnAgent& acceptor = swarm.add(1);
    for (uint8_t tag = 2; tag <= 3; ++tag) swarm.add(tag).boundary();
    const auto exchange = [&](uint8_t from, uint8_t to) {
      TurnAgent& proposer = *swarm.agents.at(test_peer(from));
      proposer.boundary();
      swarm.agents.at(test_peer(to))->boundary();
      EXPECT_TRUE(proposer.pairwise->propose(test_peer(to)));
      swarm.run_for(milliseconds(11));
      const TimePoint began = swarm.clock.now();
      while (acceptor.pairwise->under_way()) swarm.run_for(milliseconds(1));
      const Duration took = swarm.clock.now() - began;
      swarm.run_for(milliseconds(600));
      return took;
    };
    exchange(1, 2);  // how long turns take
    exchange(2, 1);
    if (decided_before) exchange(3, 1);
    swarm.network.drop = [](const Flight& flight) { return is<BlockPayload>(flight); };
    return exchange(3, 1);
  };
  const Duration brief = turn_without_blocks(false), usual = turn_without_blocks(true);
  EXPECT_LT(brief, milliseconds(100));
  EXPECT_GT(usual, milliseconds(150));
}

TEST(FairShare, PeersAreUntriedInOneKindOfExchange) {
  FairShare shares;
  EXPECT_FALSE(shares.untried(test_peer(1), true)) << "nobody has decided one yet";
  shares.decided(test_peer(1), true);
  shares.decided(test_peer(2), false);
  EXPECT_FALSE(shares.untried(test_peer(1), true));
  EXPECT_TRUE(shares.untried(test_peer(2), true));
  EXPECT_TRUE(shares.untried(test_peer(1), false));
  shares.decided(test_peer(1), false);
  EXPECT_FALSE(shares.untried(test_peer(1), false)) << "it was tried already, by exchanges of ours";
}

// It is the only one to ask, and what it does not acknowledge is kept and repeated: so it is asked so many times.
TEST(FairShare, WhoNeverAcknowledgesIsAskedNoMore) {
  TheOnlyOne sampler;
  TestSwarmOf<SyncPairs> swarm({.sampler = &sampler});
  TurnAgent& a = swarm.add(1);
  TurnAgent& b = swarm.add(2);
  std::fill(b.params.begin(), b.params.end(), 3.0f);
  swarm.network.drop = [](const Flight& flight) { return is<CommitAck>(flight); };
  for (int i = 0; i < 100; ++i) {
    a.boundary();
    b.boundary();
    (void)a.pairwise->begin();
    swarm.run_for(milliseconds(60));
  }
  EXPECT_EQ(a.pairwise->counters().initiated, PairProposer::kUnacknowledgedMax);
  EXPECT_EQ(swarm.weighted_sum(), std::vector<double>(64, 3.0)) << "the repeats are applied once";
  swarm.network.drop = nullptr;
  swarm.run_for(std::chrono::seconds(60));
  EXPECT_TRUE(swarm.all_idle());
  a.boundary();
  EXPECT_TRUE(a.pairwise->begin());
}

}  // namespace
}  // namespace starling::exchange_test
