// Agents that meet by turns, and step now and then: none may wait in a ring.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "gossip/pairs/sync_pairs.h"
#include "tests/gossip/pairs/pair_harness.h"

namespace starling::exchange_test {

// No deadline ends a wait before the end, however short exchanges are: a ring stays, and is seen.
constexpr Duration kFarAway = std::chrono::seconds(100);

// `seed`: also of who steps when. REQUIRES: deadlines of kFarAway, so that only turns end the waiting. `begin` is asked
// of each agent that is free and between two steps: whether it proposed, to one of these agents.
template <class Begin>
void expect_no_ring_of_waiting(TestSwarmOf<SyncPairs>& swarm, size_t count, uint64_t seed, const Begin& begin) {
  using std::chrono::milliseconds;
  swarm.network.options = {.control_min = milliseconds(1),
                           .control_max = milliseconds(20),
                           .bulk_min = milliseconds(1),
                           .bulk_max = milliseconds(20)};
  Rng rng(seed);
  std::vector<TestAgentOf<SyncPairs>*> agents;
  for (uint8_t tag = 1; tag <= count; ++tag) agents.push_back(&swarm.add(tag));
  for (auto* agent : agents) agent->boundary();
  uint64_t begun = 0;
  for (int beat = 0; beat < 200; ++beat) {
    for (auto* agent : agents) {
      if (agent->pairwise->under_way()) continue;
      if (agent->stepping) agent->end_steps();
      begun += begin(*agent, agents, rng);
      if (!agent->pairwise->under_way() && rng.chance(0.3)) agent->begin_steps();
    }
    swarm.run_for(milliseconds(7));
  }
  EXPECT_GT(begun, 60u);
  for (auto* agent : agents) {
    if (agent->stepping) agent->end_steps();
    agent->pump();
  }
  swarm.run_for(std::chrono::seconds(20));
  for (auto* agent : agents) {
    EXPECT_FALSE(agent->pairwise->under_way()) << "seed " << seed;
    EXPECT_EQ(agent->pairwise->waiting(), 0u);
    const PairwiseCounters counters = agent->pairwise->counters();
    EXPECT_EQ(counters.expired + counters.unanswered, 0u) << "time ended a wait";
    EXPECT_GE(agent->pairwise->current_deadline(), kFarAway);
  }
  EXPECT_TRUE(swarm.all_idle());
}

}  // namespace starling::exchange_test
