// A loop of one's own that pauses costs the others nothing, and ends with their model.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include <spdlog/spdlog.h>

#include "tests/sim/ending_swarm.h"
#include "tests/support/seeds.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Pauses : public testing::TestWithParam<ExchangeCase> {
 protected:
  static constexpr size_t kAgents = 4, kPausing = 3;

  SwarmConfig config(uint64_t stop_after) const {
    spdlog::set_level(spdlog::level::off);
    SwarmConfig config = config_of(GetParam());
    config.exchange.deadline_max = seconds(1);
    config.stop_after = stop_after;
    return config;
  }

  static uint64_t steps(QuadraticSwarm& swarm, size_t agent) { return swarm.agent(agent).rounds()->progress().steps; }

  static void begin(QuadraticSwarm& swarm, uint64_t at) {
    add_agents(swarm, kAgents);
    ASSERT_TRUE(swarm.run_until(
        [&] { return swarm.training(kPausing) && steps(swarm, kPausing) >= at && !swarm.trainer(kPausing).idle(); },
        seconds(30)));
  }

  static Pause told(QuadraticSwarm& swarm) {
    const Member* member = swarm.agent(0).router().membership().find(swarm.id(kPausing));
    return member ? member->record.meta.pause : Pause::kNone;
  }
};

TEST_P(Pauses, CostTheOthersNothing) {
  std::vector<uint64_t> alone;
  for (const bool paused : {false, true}) {
    QuadraticSwarm swarm(first_seed(), config(0), near_links(0));
    ASSERT_NO_FATAL_FAILURE(begin(swarm, 200));
    std::vector<uint64_t> before;
    for (size_t a = 0; a < kAgents; ++a) before.push_back(steps(swarm, a));
    if (paused) swarm.trainer(kPausing).hold(seconds(60));
    swarm.run_for(seconds(30));
    EXPECT_EQ(told(swarm), paused ? Pause::kPaused : Pause::kNone);
    swarm.run_for(seconds(30));
    for (size_t a = 0; a < kPausing; ++a) {
      const uint64_t taken = steps(swarm, a) - before[a];
      if (!paused) {
        alone.push_back(taken);
      } else {
        EXPECT_GE(static_cast<double>(taken), 0.95 * static_cast<double>(alone[a])) << a;
      }
    }
    if (!paused) continue;
    swarm.run_for(seconds(10));
    EXPECT_EQ(told(swarm), Pause::kNone);
    EXPECT_GE(steps(swarm, kPausing), before[kPausing] + 300) << "it trains again";
    EXPECT_LE(error(swarm), 0.05) << "and all four pull";
    const uint64_t clock = swarm.agent(kPausing).rounds()->steps().swarm_steps();
    EXPECT_GE(static_cast<double>(clock), 0.9 * static_cast<double>(steps(swarm, 0))) << "by the swarm's schedule";
  }
}

class PausesOverTheEnd : public Pauses {};

TEST_P(PausesOverTheEnd, AllEndWithOneModel) {
  const SwarmConfig settings = config(600);
  for (uint64_t seed = first_seed(); seed < first_seed() + seed_count(3); ++seed) {
    const bool has_state = seed % 2 == 0;  // of which records tell nothing
    const QuadraticShape shape{.state_from = has_state ? settings.model.dimension / 2 : SIZE_MAX};
    QuadraticSwarm swarm(seed, settings, near_links(0), {shape});
    ASSERT_NO_FATAL_FAILURE(begin(swarm, 300));
    swarm.trainer(kPausing).hold(seconds(60));
    const auto others_gone = [&] {
      for (size_t a = 0; a < kPausing; ++a) {
        if (!swarm.agent(a).finished()) return false;
      }
      return true;
    };
    ASSERT_TRUE(swarm.run_until(others_gone, seconds(40))) << "seed " << seed;
    ASSERT_TRUE(swarm.run_until([&] { return swarm.ended(); }, seconds(60))) << "seed " << seed;
    EXPECT_TRUE(swarm.agent(kPausing).rounds()->settled().value_or(false)) << "seed " << seed;
    EXPECT_LE(steps(swarm, kPausing), 350u) << "it trains no more alone";
    EXPECT_LE(farthest_pair(swarm), may_be_apart(settings)) << "seed " << seed;
  }
}

// It hears that the others end, and their model does not come through.
TEST_P(PausesOverTheEnd, AMemberLeftBehindSaysThatModelsDiffer) {
  QuadraticSwarm swarm(first_seed(), config(600), near_links(0));
  ASSERT_NO_FATAL_FAILURE(begin(swarm, 300));
  swarm.trainer(kPausing).hold(seconds(60));
  ASSERT_TRUE(swarm.run_until([&] { return swarm.agent(kPausing).rounds()->pause() != Pause::kNone; }, seconds(20)));
  swarm.network().set_filter([&](PassingFrame& frame) {
    if (frame.to == swarm.endpoint(kPausing) && frame.payload.size > 0) frame.copies.clear();
  });
  ASSERT_TRUE(swarm.run_until([&] { return swarm.ended(); }, seconds(120)));
  EXPECT_EQ(swarm.agent(kPausing).rounds()->settled(), std::optional(false));
}

const ExchangeCase kPairs{"pairs", ExchangeKind::kPairwise};
const ExchangeCase kPairsOverlapped{"pairs_overlapped", ExchangeKind::kPairwise, TopologyKind::kMatching, Overlap::kOn};
const ExchangeCase kGroup{"group", ExchangeKind::kGroup};
const ExchangeCase kUpdates{.name = "updates", .kind = ExchangeKind::kGroup, .updates = true};
const ExchangeCase kUpdatesOverlapped{
    .name = "updates_overlapped", .kind = ExchangeKind::kGroup, .overlap = Overlap::kOn, .updates = true};

INSTANTIATE_TEST_SUITE_P(Each, Pauses, testing::Values(kPairs, kPairsOverlapped, kGroup, kUpdates, kUpdatesOverlapped),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Each, PausesOverTheEnd,
                         testing::Values(kPairs, kPairsOverlapped, kGroup, kUpdates, kUpdatesOverlapped), name_of);

}  // namespace
}  // namespace starling
