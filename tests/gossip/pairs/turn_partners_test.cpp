// Pairs by turns: whom an agent asks where all may meet each other, by a schedule and by speed.
#include "gossip/pairs/sync_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "tests/gossip/pairs/pair_harness.h"
#include "tests/gossip/pairs/turn_rings.h"

namespace starling::exchange_test {
namespace {

using Turns = PairOf<SyncPairs>;
using TurnAgent = TestAgentOf<SyncPairs>;
using TurnSwarm = TestSwarmOf<SyncPairs>;

// All may meet each other: a schedule.
class Everybody final : public PeerSampler {
 public:
  explicit Everybody(size_t count) : rng_(count) {
    for (size_t a = 1; a <= count; ++a) all_.push_back(test_peer(static_cast<uint8_t>(a)));
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
TEST(SyncPairs, NoRingOfWaitingByASchedule) {
  for (uint64_t seed = 1; seed <= 13; ++seed) {
    const size_t count = 3 + seed;
    Everybody sampler(count);
    TurnSwarm swarm({.deadline_min = kFarAway, .deadline_max = kFarAway, .turns = 2, .sampler = &sampler}, seed);
    expect_no_ring_of_waiting(swarm, count, seed, [](TurnAgent& agent, const auto&, Rng&) {
      if (!agent.pairwise->fresh()) agent.boundary();
      return agent.pairwise->begin();
    });
  }
}

// Both are in the same slot: their proposals cross, and each is free after one latency.
TEST(SyncPairs, PartnersOfASlotProposeToEachOther) {
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
  EXPECT_EQ(agents[0]->pairwise->facts().due, 2u);
}

// While there is a schedule nobody leaves a payload behind for several steps, however long they are: a partner would be
// served with what was before them. Of four agents after each step there is none.
TEST(SyncPairs, AfterSeveralStepsTheStateAfterThemIsWaitedFor) {
  for (const uint64_t turns : {1, 2}) {
    Everybody sampler(4);
    TurnSwarm swarm({.turns = turns, .sampler = &sampler});
    TurnAgent& a = swarm.add(1);
    EXPECT_LE(a.pairwise->facts().wait_max, milliseconds(250));
    a.boundary();
    EXPECT_EQ(a.pairwise->facts().wait_max == Duration::max(), turns == 2);
  }
}

// Then all must meet each other: of an even number, half are never partners by a schedule.
TEST(SyncPairs, WhileSettlingThereIsNoSchedule) {
  Everybody sampler(8);
  TurnSwarm swarm({.turns = 2, .sampler = &sampler});
  TurnAgent& a = swarm.add(1);
  a.boundary();
  EXPECT_TRUE(a.pairwise->facts().ahead);
  a.far = Far{};
  a.boundary();
  EXPECT_FALSE(a.pairwise->facts().ahead);
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
      EXPECT_TRUE(agents[0]->pairwise->propose(agents[other]->id));  // and hears of the first's
      swarm.run_for(milliseconds(30));
      agents[0]->boundary();
    }
  }

  Everybody sampler{4};
  TurnSwarm swarm;
  std::vector<TurnAgent*> agents;
};

// Else whoever had no partner at a boundary would count as slow.
TEST(SyncPairs, WhatItSaysOfItsStepsIsOfOneBoundary) {
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

TEST(SyncPairs, ASlowPeerIsNotAskedInItsSlot) {
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
TEST(SyncPairs, WhoOwesADecisionIsNotAskedInItsSlot) {
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
    swarm.run_for(milliseconds(600));  // longer than any deadline
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

TEST(SyncPairs, WhoIsSlowLeavesAPayloadBehindBeforeStepsOfOneRoundTrip) {
  for (const uint64_t turns : {1, 2}) {
    OneSlow four(turns);
    ASSERT_TRUE(four.agents[3]->pairwise->propose(four.agents[1]->id));  // the third time that it is known
    four.swarm.run_for(milliseconds(30));
    for (TurnAgent* agent : {four.agents[0], four.agents[3]}) agent->boundary();
    const Duration round_trip = milliseconds(20);
    EXPECT_EQ(four.agents[0]->pairwise->facts().wait_max, turns == 2 ? Duration::max() : 2 * round_trip);
    EXPECT_EQ(four.agents[3]->pairwise->facts().wait_max, round_trip) << "it has no schedule either";
  }
}

}  // namespace
}  // namespace starling::exchange_test
