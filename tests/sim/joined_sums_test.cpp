// Groups joined by pairs: what their exchanges conserve of sum(mass * params), and what they do not.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <vector>

#include "tests/sim/quadratic_swarm.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Joined {
  const char* name;
  size_t agents;
  uint32_t pairs_every;
  Duration patience = kDeadlineMin;   // a group waits at least so long for its members
};

struct Drift {
  double of_sum = 0;           // as drift_of_sums() says
  uint64_t not_counted = 0;    // blocks that were due
  double pairs = 0;            // exchanges decided
};

// Since the beginning, over all agents.
Drift counted_so_far(QuadraticSwarm& swarm) {
  Drift so_far;
  for (size_t a = 0; a < swarm.count(); ++a) {
    const ExchangeStatus status = swarm.agent(a).exchange()->status();
    so_far.not_counted += status.block_tally.due - status.block_tally.counted;
    so_far.pairs += static_cast<double>(status.pairs.done + status.pairs.late) / 2;   // each at both ends
  }
  return so_far;
}

// In groups of four, over 8 s after all agents were thrown apart. Only exchanges move anything. For 8 s before, all
// agents were alike and their groups came in step: members that begin one after the other miss each other's first
// rounds.
Drift drift_of(const Joined& joined, uint64_t rng_seed) {
  SwarmConfig settings = quadratic_settings(512, 0, 0.9f);
  settings.weight = "equal";
  settings.exchange.kind = ExchangeKind::kGroup;
  settings.exchange.codec = CodecKind::kFp32;
  settings.exchange.carry_momentum = true;
  settings.exchange.block = 128;
  settings.exchange.deadline_min = joined.patience;
  settings.exchange.deadline_max = milliseconds(500);
  settings.exchange.group_size = 4;
  settings.exchange.pairs_every = joined.pairs_every;
  const LinkOptions links{.delay_min = milliseconds(5), .delay_max = milliseconds(5)};
  QuadraticSwarm swarm(rng_seed, settings, links);
  for (size_t a = 0; a < joined.agents; ++a) swarm.add({.step_time = milliseconds(40)});
  swarm.run_for(seconds(8));
  const Drift before = counted_so_far(swarm);
  swarm.throw_apart();
  swarm.run_for(seconds(8));
  Drift drift = counted_so_far(swarm);
  drift.not_counted -= before.not_counted;
  drift.pairs -= before.pairs;
  drift.of_sum = swarm.drift_of_sums();
  std::printf("%s, seed %llu: drift %.1e, %llu blocks did not count, %.0f pair exchanges\n", joined.name,
              static_cast<unsigned long long>(rng_seed), drift.of_sum,
              static_cast<unsigned long long>(drift.not_counted), drift.pairs);
  return drift;
}

class JoinedSums : public testing::Test {
 protected:
  static void SetUpTestSuite() { spdlog::set_level(spdlog::level::off); }
};

// Averages and pairs, own ones and those that a group's snapshot served: each delta is added to what the agent has
// then, so the sum stays in whatever order they are decided.
TEST_F(JoinedSums, StayWhileEveryBlockCounts) {
  constexpr Duration kPatience = milliseconds(300);
  for (const Joined& joined : {Joined{"16 agents, pairs every second round", 16, 2, kPatience},
                               {"16, every third", 16, 3, kPatience}, {"16, every eighth", 16, 8, kPatience},
                               {"32, every third", 32, 3, kPatience}}) {
    SCOPED_TRACE(joined.name);
    for (uint64_t rng_seed = 1; rng_seed <= 3; ++rng_seed) {
      const Drift drift = drift_of(joined, rng_seed);
      EXPECT_GT(drift.pairs, 200);
      EXPECT_EQ(drift.not_counted, 0u);
      EXPECT_LE(drift.of_sum, 1e-7);
    }
  }
}

// A group averages what has come by its deadline, and whoever is too late takes the average all the same. After a round
// of pairs members are not in step, so a few blocks are late on links that lose nothing.
TEST_F(JoinedSums, AreNotKeptByAGroupThatMissesBlocks) {
  for (uint64_t rng_seed = 1; rng_seed <= 3; ++rng_seed) {
    const Drift drift = drift_of({"16, every third, the usual patience", 16, 3}, rng_seed);
    EXPECT_GT(drift.not_counted, 0u);
    EXPECT_GT(drift.of_sum, 1e-3) << "if a group that misses blocks keeps the sum, gossip/exchange/README.md is wrong";
    EXPECT_LT(drift.of_sum, 0.5);
  }
}

}  // namespace
}  // namespace starling
