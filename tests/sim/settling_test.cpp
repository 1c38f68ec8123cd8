// How whole swarms end: in agreement, or saying that they do not agree.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include <spdlog/spdlog.h>

#include "tests/sim/exchange_cases.h"
#include "tests/support/seeds.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct SettlingCase {
  const char* name;
  ExchangeCase exchange;
  size_t agents;
};

// Pull apart and end after 60 steps, so that slow graphs are far from one model then.
SwarmConfig ending_soon(const ExchangeCase& exchange) {
  SwarmConfig config = config_of(exchange);
  config.stop_after = 60;
  return config;
}

void add_agents(QuadraticSwarm& swarm, size_t count) {
  for (size_t a = 0; a < count; ++a) {
    SimAgentOptions options;
    options.step_time = milliseconds(10);
    swarm.add(options);
  }
}

// Of any two models, in rms over the rms of their mean.
double farthest_pair(QuadraticSwarm& swarm) {
  double most = 0;
  for (size_t a = 0; a < swarm.count(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const View x = swarm.params(a), y = swarm.params(b);
      double squares = 0;
      for (size_t i = 0; i < x.count; ++i) squares += std::pow(double{x.data[i]} - double{y.data[i]}, 2);
      most = std::max(most, std::sqrt(squares / static_cast<double>(x.count)));
    }
  }
  double mean_squares = 0;
  for (const double value : swarm.mean_params()) mean_squares += value * value;
  return most / std::sqrt(mean_squares / static_cast<double>(swarm.mean_params().size()));
}

size_t settled_count(QuadraticSwarm& swarm) {
  size_t count = 0;
  for (size_t a = 0; a < swarm.count(); ++a) count += swarm.agent(a).rounds()->settled().value_or(false);
  return count;
}

class Settles : public testing::TestWithParam<SettlingCase> {};

TEST_P(Settles, InAgreement) {
  spdlog::set_level(spdlog::level::off);
  const SwarmConfig config = ending_soon(GetParam().exchange);
  for (uint64_t seed = first_seed(); seed < first_seed() + seed_count(3); ++seed) {
    QuadraticSwarm swarm(seed, config, near_links(0));
    add_agents(swarm, GetParam().agents);
    ASSERT_TRUE(swarm.run_until([&] { return swarm.ended(); }, seconds(60)));
    EXPECT_EQ(settled_count(swarm), swarm.count()) << "seed " << seed;
    EXPECT_LE(farthest_pair(swarm), 1.5 * config.final_distance) << "the estimate may be so much too small";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, Settles,
    testing::Values(SettlingCase{"pairs", {"", ExchangeKind::kPairwise}, 16},
                    SettlingCase{"pairs_on_a_ring", {"", ExchangeKind::kPairwise, TopologyKind::kRing}, 24},
                    SettlingCase{"ring", {"", ExchangeKind::kNeighborhood, TopologyKind::kRing}, 8},
                    SettlingCase{"group", {"", ExchangeKind::kGroup}, 8},
                    SettlingCase{"groups_with_pairs",
                                 {"", ExchangeKind::kGroup, TopologyKind::kMatching, Overlap::kOff, 4, 3}, 16},
                    SettlingCase{"updates", {.name = "", .kind = ExchangeKind::kGroup, .updates = true}, 4}),
    [](const auto& info) { return std::string(info.param.name); });

// Neighbors on a ring are close long before the ring is.
TEST(Settling, WithoutTheTimeToAgreeNobodySaysThatItDid) {
  spdlog::set_level(spdlog::level::off);
  SwarmConfig config = ending_soon({"", ExchangeKind::kNeighborhood, TopologyKind::kRing});
  config.settle_max = milliseconds(100);
  QuadraticSwarm swarm(first_seed(), config, near_links(0));
  add_agents(swarm, 32);
  ASSERT_TRUE(swarm.run_until([&] { return swarm.ended(); }, seconds(60)));
  EXPECT_GT(farthest_pair(swarm), 2 * config.final_distance);
  EXPECT_EQ(settled_count(swarm), 0u);
}

}  // namespace
}  // namespace starling
