// Whole agents with every exchange find what none of them finds alone: the optimum of all.
#include <cmath>
#include <cstdio>

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "tests/sim/exchange_cases.h"

namespace starling {
namespace {

using std::chrono::seconds;

// Some agents pull harder than others, so the swarm's optimum is not the mean of what each finds alone.
const std::vector<QuadraticShape> kUnequal = {
    {.curvature = 0.25}, {.curvature = 0.5}, {.curvature = 1}, {.curvature = 2}};

// rms distance between the mean of the agents' params and the minimum of the sum of their losses.
double distance_to_optimum(QuadraticSwarm& swarm) {
  const std::vector<double> mean = swarm.mean_params();
  std::vector<double> optimum(mean.size());
  double pull = 0, squares = 0;
  for (size_t a = 0; a < swarm.count(); ++a) {
    const double curvature = kUnequal[a % kUnequal.size()].curvature;
    pull += curvature;
    for (size_t i = 0; i < mean.size(); ++i) optimum[i] += curvature * swarm.quadratic(a).target()[i];
  }
  for (size_t i = 0; i < mean.size(); ++i) squares += std::pow(mean[i] - optimum[i] / pull, 2);
  return std::sqrt(squares / static_cast<double>(mean.size()));
}

struct Found { double from_optimum, apart; };

Found found_by(const ExchangeCase& c) {
  QuadraticSwarm swarm(3, config_of(c), near_links(0), kUnequal);
  for (size_t a = 0; a < 8; ++a) swarm.add({});
  swarm.run_for(seconds(20));
  return {distance_to_optimum(swarm), swarm.worst_distance_to(swarm.mean_params())};
}

class Optimum : public testing::TestWithParam<ExchangeCase> {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }
};

TEST_P(Optimum, IsFoundByAllWhoStayTogether) {
  QuadraticSwarm swarm(3, config_of(GetParam()), near_links(0));
  for (size_t a = 0; a < 9; ++a) swarm.add({});
  swarm.run_for(seconds(20));
  // Agents differ by their own steps: the less, the better the graph mixes.
  EXPECT_LT(error(swarm), 0.15);
  EXPECT_LT(swarm.worst_distance_to(swarm.mean_params()), 0.7);
}

// Agents that never exchange end up at their own targets, whose mean is not the optimum. Exchanges find it.
TEST_P(Optimum, IsFoundThatNobodyFindsAlone) {
  static const Found alone = found_by({.name = "none", .kind = ExchangeKind::kNone});
  ASSERT_GT(alone.from_optimum, 0.2);
  ASSERT_GT(alone.apart, 0.8);
  const Found together = found_by(GetParam());
  std::printf("%s: %.3f from the optimum, %.3f apart; alone %.3f, %.3f\n", GetParam().name, together.from_optimum,
              together.apart, alone.from_optimum, alone.apart);
  EXPECT_LT(together.from_optimum, 0.4 * alone.from_optimum);
  EXPECT_LT(together.apart, 0.6 * alone.apart);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Optimum, every_exchange(), name_of);

// With `weight: data` an agent with four times the data counts four times in what the swarm finds.
TEST(Weight, ByDataMovesTheOptimumToWhereTheDataAre) {
  spdlog::set_level(spdlog::level::off);
  for (const char* weight : {"data", "uniform"}) {
    SwarmConfig config = config_of({.name = "", .kind = ExchangeKind::kGroup});
    config.weight = weight;
    const std::vector<uint64_t> sizes = {100, 400};
    QuadraticSwarm swarm(17, config, near_links(0), {{.samples = sizes[0]}, {.samples = sizes[1]}});
    for (size_t a = 0; a < 4; ++a) swarm.add({});
    swarm.run_for(seconds(20));
    double by_size = 0, equal = 0;  // squared distances of an agent to both answers
    for (size_t i = 0; i < config.model.dimension; ++i) {
      double weighted = 0, plain = 0;
      for (size_t a = 0; a < 4; ++a) {
        const double target = swarm.quadratic(a).target()[i];
        weighted += static_cast<double>(sizes[a % 2]) * target / 1000;
        plain += target / 4;
      }
      by_size += std::pow(swarm.params(0).data[i] - weighted, 2);
      equal += std::pow(swarm.params(0).data[i] - plain, 2);
    }
    const bool data = std::string(weight) == "data";
    EXPECT_LT((data ? by_size : equal) * 9, data ? equal : by_size) << weight << ": three times nearer";
  }
}

// All-reduce: when the steps are over, everybody has the same params. The first rounds have fewer members, which leaves
// an error of chance.
TEST(GroupExchange, WithoutLossIsAllReduce) {
  spdlog::set_level(spdlog::level::off);
  SwarmConfig config = config_of({"", ExchangeKind::kGroup});
  config.stop_after = 300;
  constexpr uint64_t kSeeds = 8;
  double errors = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    QuadraticSwarm swarm(seed, config, near_links(0));
    for (size_t a = 0; a < 8; ++a) swarm.add({});
    ASSERT_TRUE(swarm.run_until([&] { return swarm.ended(); }, seconds(60)));
    EXPECT_LT(swarm.worst_distance_to(swarm.mean_params()), 1e-6);
    errors += error(swarm);
  }
  EXPECT_LT(errors / kSeeds, 0.05);
}

// Gradients of one step, averaged over everybody: with no loss the replicas never part.
TEST(GroupExchange, SharedGradientsWithoutLossKeepReplicasTogether) {
  spdlog::set_level(spdlog::level::off);
  QuadraticSwarm swarm(11, config_of({.name = "", .kind = ExchangeKind::kGroup, .gradients = true}), near_links(0));
  for (size_t a = 0; a < 4; ++a) swarm.add({});
  swarm.run_for(seconds(20));
  EXPECT_LT(error(swarm), 0.05);
}

}  // namespace
}  // namespace starling
