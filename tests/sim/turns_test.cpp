// Pairs by turns in whole agents: one bad peer of eight costs the others hardly any exchange with each other.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>

#include "tests/sim/quadratic_swarm.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kAgents = 8, kBad = 7;

SwarmConfig turns_swarm() {
  SwarmConfig swarm;
  swarm.model.kind = "quadratic";
  swarm.model.dimension = 512;
  swarm.optimizer.learning_rate = 0.02;
  swarm.local_steps = 1;
  swarm.exchange.carry_momentum = true;
  swarm.exchange.block = 128;
  swarm.exchange.deadline_max = milliseconds(500);
  return swarm;
}

// How many exchanges the first seven of eight agents decide with each other in 20 s, if the eighth's frames are lost
// where `lost` says so, and its steps take `its_step`.
size_t exchanges_of_the_others(uint64_t rng_seed, const std::function<bool(const Message&)>& lost, Duration its_step) {
  LinkOptions links;
  links.delay_min = milliseconds(4);
  links.delay_max = milliseconds(6);
  QuadraticSwarm swarm(rng_seed, turns_swarm(), links);
  std::set<ExchangeId> decided;
  swarm.network().set_filter([&](PassingFrame& frame) {
    const bool bad = frame.from == swarm.endpoint(kBad);
    if (bad && lost(frame.message)) frame.copies.clear();
    const Commit* commit = message_as<Commit>(frame.message);
    if (commit != nullptr && !bad && frame.to != swarm.endpoint(kBad)) decided.insert(commit->xid);
  });
  for (size_t a = 0; a < kAgents; ++a) swarm.add({.step_time = a == kBad ? its_step : milliseconds(40)});
  const auto all_train = [&] {
    for (size_t a = 0; a < kAgents; ++a) {
      if (!swarm.training(a)) return false;
    }
    return true;
  };
  EXPECT_TRUE(swarm.run_until(all_train, seconds(20)));
  decided.clear();
  swarm.run_for(seconds(20));
  return decided.size();
}

class OneBadPeer : public testing::Test {
 protected:
  using Lost = std::function<bool(const Message&)>;

  static void SetUpTestSuite() {
    spdlog::set_level(spdlog::level::off);
    honest_ = over_seeds([](const Message&) { return false; }, milliseconds(40));
  }
  static double over_seeds(const Lost& lost, Duration its_step) {
    size_t sum = 0;
    for (uint64_t rng_seed = 1; rng_seed <= kSeeds; ++rng_seed) {
      sum += exchanges_of_the_others(rng_seed, lost, its_step);
    }
    return static_cast<double>(sum) / kSeeds;
  }
  static void expect_the_others_to_keep(const Lost& lost, Duration its_step = milliseconds(40)) {
    const double exchanges = over_seeds(lost, its_step);
    std::printf("%.0f exchanges of the others, %.0f beside an honest eighth\n", exchanges, honest_);
    EXPECT_GT(honest_, 1000);
    EXPECT_GE(exchanges, 0.95 * honest_);
  }
  static constexpr uint64_t kSeeds = 5;
  static inline double honest_ = 0;
};

TEST_F(OneBadPeer, MayProposeWithoutEnd) {
  expect_the_others_to_keep([](const Message&) { return false; }, milliseconds(1));
}

TEST_F(OneBadPeer, MayNeverSendBlocks) {
  expect_the_others_to_keep([](const Message& m) { return message_is<BlockPayload>(m); });
}

TEST_F(OneBadPeer, MayNeverVote) {
  expect_the_others_to_keep([](const Message& m) { return message_is<Have>(m); });
}

TEST_F(OneBadPeer, MayNeverCommit) {
  expect_the_others_to_keep([](const Message& m) { return message_is<Commit>(m); });
}

// One exchange a step, whoever began it, and none is refused because of its peer's share but by a rare chance.
TEST(SimTurns, EachAgentMakesAboutOneExchangeAStep) {
  spdlog::set_level(spdlog::level::off);
  for (const size_t agents : {size_t{2}, size_t{3}, size_t{4}, size_t{8}}) {
    LinkOptions links;
    links.delay_min = links.delay_max = milliseconds(20);
    QuadraticSwarm swarm(3, turns_swarm(), links);
    for (size_t a = 0; a < agents; ++a) swarm.add({.step_time = milliseconds(40)});
    swarm.run_for(seconds(20));
    uint64_t least = UINT64_MAX, most = 0;
    double exchanges = 0, steps = 0, over_share = 0;
    for (size_t a = 0; a < agents; ++a) {
      const uint64_t own = swarm.agent(a).rounds()->progress().steps;
      least = std::min(least, own);
      most = std::max(most, own);
      steps += static_cast<double>(own);
      const ExchangeStatus status = swarm.agent(a).exchange()->status();
      exchanges += static_cast<double>(status.turns);
      over_share += static_cast<double>(status.pairs.over_share);
    }
    std::printf("%zu agents: %.2f exchanges a step, %llu to %llu steps, %.0f refused for their share\n", agents,
                exchanges / steps, static_cast<unsigned long long>(least), static_cast<unsigned long long>(most),
                over_share);
    EXPECT_GT(exchanges, 0.9 * steps);
    EXPECT_LT(exchanges, 1.3 * steps);
    EXPECT_GE(static_cast<double>(least), 0.9 * static_cast<double>(most));
    EXPECT_LE(over_share, 0.01 * exchanges);
    EXPECT_LT(20 * agents, 0.075 * steps) << "about 60 ms a step: 40 of its own, 20 of latency";
  }
}

}  // namespace
}  // namespace starling
