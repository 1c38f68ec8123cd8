// What the rounds of a group conserve of sum(mass * params), and what they do not.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <cstdio>

#include "tests/sim/quadratic_swarm.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Drift {
  double of_sum = 0;         // as drift_of_sums() says
  uint64_t not_counted = 0;  // blocks that were due
};

uint64_t not_counted_so_far(QuadraticSwarm& swarm) {
  uint64_t count = 0;
  for (size_t a = 0; a < swarm.count(); ++a) {
    const BlockTally tally = swarm.agent(a).exchange()->status().block_tally;
    count += tally.due - tally.counted;
  }
  return count;
}

// Over 8 s after all agents were thrown apart; only exchanges move anything. For 8 s before, all agents were alike and
// came in step: members that begin one after the other miss each other's first rounds.
Drift drift_of(size_t agents, double loss, uint64_t rng_seed) {
  SwarmConfig settings = quadratic_settings(512, 0, 0.9f);
  settings.weight = "equal";
  settings.exchange.kind = ExchangeKind::kGroup;
  settings.exchange.codec = CodecKind::kFp32;
  settings.exchange.carry_momentum = true;
  settings.exchange.block = 128;
  settings.exchange.deadline_min = milliseconds(300);  // a group waits at least so long for its members
  settings.exchange.deadline_max = milliseconds(500);
  QuadraticSwarm swarm(rng_seed, settings, {.loss = loss, .delay_min = milliseconds(5), .delay_max = milliseconds(5)});
  for (size_t a = 0; a < agents; ++a) swarm.add({.step_time = milliseconds(40)});
  swarm.run_for(seconds(8));
  const uint64_t before = not_counted_so_far(swarm);
  swarm.throw_apart();
  swarm.run_for(seconds(8));
  const Drift drift{swarm.drift_of_sums(), not_counted_so_far(swarm) - before};
  std::printf("%zu agents, seed %llu: drift %.1e, %llu blocks did not count\n", agents,
              static_cast<unsigned long long>(rng_seed), drift.of_sum,
              static_cast<unsigned long long>(drift.not_counted));
  return drift;
}

class GroupSums : public testing::Test {
 protected:
  static void SetUpTestSuite() { spdlog::set_level(spdlog::level::off); }
};

TEST_F(GroupSums, StayWhileEveryBlockCounts) {
  for (const size_t agents : {4, 8}) {  // each owns a block at least
    for (uint64_t rng_seed = 1; rng_seed <= 3; ++rng_seed) {
      const Drift drift = drift_of(agents, 0, rng_seed);
      EXPECT_EQ(drift.not_counted, 0u);
      EXPECT_LE(drift.of_sum, 1e-7);
    }
  }
}

// A group averages what has come by its deadline, and a member whose block is late takes the average all the same.
TEST_F(GroupSums, AreNotKeptByAGroupThatMissesBlocks) {
  for (uint64_t rng_seed = 1; rng_seed <= 3; ++rng_seed) {
    const Drift drift = drift_of(8, 0.1, rng_seed);
    EXPECT_GT(drift.not_counted, 0u);
    EXPECT_GT(drift.of_sum, 1e-3) << "if a group that misses blocks keeps the sum, gossip/exchange/README.md is wrong";
    EXPECT_LT(drift.of_sum, 0.5);
  }
}

}  // namespace
}  // namespace starling
