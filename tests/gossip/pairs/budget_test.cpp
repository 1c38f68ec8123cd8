#include "gossip/pairs/budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "gossip/rng.h"

namespace starling {
namespace {

TEST(SnapshotBudget, OffersHalvesAndIsSpentAfterThree) {
  SnapshotBudget budget;
  EXPECT_EQ(budget.take(), 1);
  EXPECT_EQ(budget.take(), 0.5);
  EXPECT_EQ(budget.take(), 0.25);
  EXPECT_EQ(budget.largest_free(), 0);
  EXPECT_EQ(budget.take(), 0);
}

TEST(SnapshotBudget, OfOneShareOffersOnlyThat) {
  SnapshotBudget budget(1);
  budget.hold(0.5);  // of an exchange that began on a snapshot with more
  EXPECT_EQ(budget.take(), 1);
  EXPECT_EQ(budget.take(), 0);
  budget.give_back(0.5);
  EXPECT_EQ(budget.take(), 0);
  budget.give_back(1);
  EXPECT_EQ(budget.take(), 1);
}

TEST(SnapshotBudget, WhatWasNotUsedComesBackLargestFirst) {
  SnapshotBudget budget;
  for (int i = 0; i < 3; ++i) budget.take();
  budget.give_back(0.25);
  budget.give_back(1);
  EXPECT_EQ(budget.take(), 1);
  EXPECT_EQ(budget.take(), 0.25);
  EXPECT_EQ(budget.take(), 0);
}

TEST(SnapshotBudget, HoldsWhatAnOlderSnapshotPromised) {
  SnapshotBudget budget;
  budget.hold(1);
  EXPECT_EQ(budget.take(), 0.5);
}

// With one straggler among equals; each agent proposes once per boundary and answers from its
// last snapshot. Returns the agents' rms distance from their mean after `boundaries` boundaries of the fastest.
double spread_after(int boundaries, bool with_budget) {
  struct Agent {
    double x = 0, snapshot = 0, pending = 0;
    SnapshotBudget budget;
  };
  constexpr int kAgents = 8;
  Rng rng(7);
  std::vector<Agent> agents(kAgents);
  for (Agent& agent : agents) agent.x = agent.snapshot = rng.uniform() - 0.5;
  for (int t = 1; t <= boundaries; ++t) {
    for (int i = 0; i < kAgents; ++i) {
      if (t % (i == kAgents - 1 ? 8 : 1) != 0) continue;  // one agent is 8 times slower than the others
      Agent& a = agents[static_cast<size_t>(i)];
      a.x += a.pending;
      a.pending = 0;
      a.snapshot = a.x;
      a.budget = SnapshotBudget();
      const uint32_t other = (static_cast<uint32_t>(i) + 1 + rng.below(kAgents - 1)) % kAgents;
      Agent& b = agents[other];
      double offer = 1;
      if (with_budget) {
        offer = std::min(a.budget.largest_free(), b.budget.largest_free());
        if (offer == 0) continue;
        a.budget.take();
        b.budget.take();
      }
      const double delta = offer / 2 * (b.snapshot - a.snapshot);
      a.pending += delta;
      b.pending -= delta;
    }
  }
  double mean = 0, sum = 0;
  for (const Agent& agent : agents) mean += agent.x / kAgents;
  for (const Agent& agent : agents) sum += (agent.x - mean) * (agent.x - mean) / kAgents;
  return std::sqrt(sum);
}

TEST(SnapshotBudget, KeepsASwarmOfDifferentSpeedsFromDiverging) {
  const double at_start = spread_after(0, true);
  EXPECT_LT(spread_after(20'000, true), 1e-6 * at_start);
  EXPECT_GT(spread_after(500, false), 1e6 * at_start);
}

}  // namespace
}  // namespace starling
