// Whole agents with the exchanges in rounds: they learn the swarm's optimum, under loss, through a death and a birth.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "tests/sim/quadratic_swarm.h"
#include "tests/support/seeds.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Case {
  const char* name;
  ExchangeKind kind;
  TopologyKind topology = TopologyKind::kMatching;
  Overlap overlap = Overlap::kOff;
  uint32_t group_size = 16;
  uint32_t pairs_every = 0;
  bool gradients = false;      // without repair
  Duration round{};
  bool updates = false;
};

SwarmConfig config_of(const Case& c) {
  SwarmConfig swarm;
  swarm.model.kind = "quadratic";
  swarm.model.dimension = 256;
  swarm.optimizer.learning_rate = 0.05;
  swarm.optimizer.momentum = 0;
  swarm.weight = "equal";
  swarm.exchange.kind = c.kind;
  swarm.exchange.codec = CodecKind::kFp32;
  swarm.exchange.block = 64;
  swarm.exchange.overlap = c.overlap;
  swarm.exchange.deadline_max = milliseconds(100);
  swarm.exchange.group_size = c.group_size;
  swarm.exchange.pairs_every = c.pairs_every;
  swarm.exchange.source = c.gradients ? SourceKind::kGradients : c.updates ? SourceKind::kUpdates : SourceKind::kParams;
  swarm.exchange.repair = false;
  swarm.topology.kind = c.topology;
  swarm.round = c.round;
  swarm.membership.probe_interval = milliseconds(500);
  swarm.membership.probe_timeout = milliseconds(300);
  return swarm;
}

LinkOptions links(double loss) { return {.loss = loss, .delay_min = milliseconds(1), .delay_max = milliseconds(4)}; }

// rms distance between the mean of the living agents' params and the mean of their targets.
double error(QuadraticSwarm& swarm) {
  std::vector<double> mean = swarm.mean_params();
  double squares = 0, agents = 0;
  std::vector<double> target(mean.size());
  for (size_t a = 0; a < swarm.count(); ++a) {
    if (!swarm.training(a)) continue;
    ++agents;
    for (size_t i = 0; i < mean.size(); ++i) target[i] += static_cast<double>(swarm.quadratic(a).target()[i]);
  }
  for (size_t i = 0; i < mean.size(); ++i) squares += std::pow(mean[i] - target[i] / agents, 2);
  return std::sqrt(squares / static_cast<double>(mean.size()));
}

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

struct Found {
  double from_optimum, apart;
};

Found found_by(const Case& c) {
  QuadraticSwarm swarm(3, config_of(c), links(0), kUnequal);
  for (size_t a = 0; a < 8; ++a) swarm.add({});
  swarm.run_for(seconds(20));
  return {distance_to_optimum(swarm), swarm.worst_distance_to(swarm.mean_params())};
}

class Exchanges : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }
};

TEST_P(Exchanges, FindTheOptimumOfAllAndStayTogether) {
  QuadraticSwarm swarm(3, config_of(GetParam()), links(0));
  for (size_t a = 0; a < 9; ++a) swarm.add({});
  swarm.run_for(seconds(20));
  // Agents differ by their own steps: the less, the better the graph mixes.
  EXPECT_LT(error(swarm), 0.15);
  EXPECT_LT(swarm.worst_distance_to(swarm.mean_params()), 0.7);
}

// Agents that never exchange end up at their own targets, whose mean is not the optimum. Exchanges find it.
TEST_P(Exchanges, FindWhatNobodyFindsAlone) {
  static const Found alone = found_by({.name = "none", .kind = ExchangeKind::kNone});
  ASSERT_GT(alone.from_optimum, 0.2);
  ASSERT_GT(alone.apart, 0.8);
  const Found together = found_by(GetParam());
  std::printf("%s: %.3f from the optimum, %.3f apart; alone %.3f, %.3f\n", GetParam().name, together.from_optimum,
              together.apart, alone.from_optimum, alone.apart);
  EXPECT_LT(together.from_optimum, 0.4 * alone.from_optimum);
  EXPECT_LT(together.apart, 0.6 * alone.apart);
}

TEST_P(Exchanges, LearnUnderLossThroughADeathAndABirth) {
  QuadraticSwarm swarm(5, config_of(GetParam()), links(0.05));
  for (size_t a = 0; a < 9; ++a) swarm.add({});
  swarm.run_for(seconds(5));
  swarm.kill(4);
  swarm.run_for(seconds(5));
  SimAgentOptions newcomer;
  newcomer.adopt_settings = true;
  newcomer.bootstrap = {2};
  swarm.add(newcomer);
  swarm.run_for(seconds(20));
  ASSERT_TRUE(swarm.training(9));
  EXPECT_EQ(swarm.agent(9).router().membership().alive().size(), 8u);
  EXPECT_GT(swarm.agent(9).rounds()->tally().done + swarm.agent(9).rounds()->tally().late, 50u);
  // Gradients that are lost part the replicas for good, which is why they are a baseline only.
  if (!GetParam().gradients) {
    EXPECT_LT(error(swarm), 0.3);
    EXPECT_LT(swarm.worst_distance_to(swarm.mean_params()), 1.2);   // pairs on a ring mix slowest
  }
}

TEST_P(Exchanges, TheSameSeedGivesTheSameRun) {
  const auto run = [] {
    QuadraticSwarm swarm(7, config_of(GetParam()), links(0.1));
    for (size_t a = 0; a < 5; ++a) swarm.add({});
    swarm.run_for(seconds(4));
    return swarm.digest();
  };
  EXPECT_EQ(run(), run());
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Exchanges,
    testing::Values(Case{"pairwise", ExchangeKind::kPairwise},
                    Case{"ring_pairs", ExchangeKind::kPairwise, TopologyKind::kRing},
                    Case{"ring", ExchangeKind::kNeighborhood, TopologyKind::kRing},
                    Case{"exponential", ExchangeKind::kNeighborhood, TopologyKind::kExponential},
                    Case{"ring_overlapped", ExchangeKind::kNeighborhood, TopologyKind::kRing, Overlap::kOn},
                    Case{"matching", ExchangeKind::kNeighborhood, TopologyKind::kMatching},
                    Case{"ring_timed", ExchangeKind::kNeighborhood, TopologyKind::kRing, Overlap::kOff, 16, 0, false,
                         milliseconds(30)},
                    Case{"group", ExchangeKind::kGroup},
                    Case{"group_overlapped", ExchangeKind::kGroup, TopologyKind::kMatching, Overlap::kOn},
                    Case{"groups_with_pairs", ExchangeKind::kGroup, TopologyKind::kMatching, Overlap::kOff, 4, 3},
                    Case{"gradients", ExchangeKind::kGroup, TopologyKind::kMatching, Overlap::kOff, 16, 0, true},
                    Case{.name = "updates", .kind = ExchangeKind::kGroup, .updates = true},
                    Case{.name = "updates_overlapped", .kind = ExchangeKind::kGroup, .overlap = Overlap::kOn,
                         .updates = true}),
    [](const auto& info) { return std::string(info.param.name); });

// No agent is special: whichever of five are gone, the others go on and meet. In pairs nobody waits for the dead; a
// neighbor or a group does, a deadline a round, until the membership knows them dead.
TEST(AnySubset, MayDie) {
  spdlog::set_level(spdlog::level::off);
  for (const ExchangeKind kind : {ExchangeKind::kPairwise, ExchangeKind::kNeighborhood, ExchangeKind::kGroup}) {
    constexpr uint32_t kSubsets = 30;   // of five agents; neither none nor all
    for (uint64_t draw = 0, draws = seed_count(kSubsets); draw < draws; ++draw) {
      const uint32_t dead = 1 + static_cast<uint32_t>(draw * std::max(kSubsets / draws, uint64_t{1}) % kSubsets);
      QuadraticSwarm swarm(1 + draw, config_of({.name = "", .kind = kind, .topology = TopologyKind::kRing}), links(0));
      for (size_t a = 0; a < 5; ++a) swarm.add({});
      swarm.run_for(seconds(3));
      std::vector<uint64_t> steps(5);
      for (size_t a = 0; a < 5; ++a) {
        if (dead >> a & 1) swarm.kill(a);
        steps[a] = dead >> a & 1 ? 0 : swarm.agent(a).rounds()->progress().steps;
      }
      swarm.run_for(seconds(8));
      for (size_t a = 0; a < 5; ++a) {
        if (dead >> a & 1) continue;
        const uint64_t least = kind == ExchangeKind::kPairwise ? 300 : kind == ExchangeKind::kNeighborhood ? 150 : 40;
        EXPECT_GT(swarm.agent(a).rounds()->progress().steps - steps[a], least)
            << "agent " << a << ", dead " << dead << ", kind " << static_cast<int>(kind);
      }
      EXPECT_LT(swarm.worst_distance_to(swarm.mean_params()), 1.0) << "dead " << dead;
    }
  }
}

// With `weight: data` an agent with four times the data counts four times in what the swarm finds.
TEST(Weight, ByDataMovesTheOptimumToWhereTheDataAre) {
  spdlog::set_level(spdlog::level::off);
  for (const char* weight : {"data", "uniform"}) {
    SwarmConfig config = config_of({.name = "", .kind = ExchangeKind::kGroup});
    config.weight = weight;
    const std::vector<uint64_t> sizes = {100, 400};
    QuadraticSwarm swarm(17, config, links(0), {{.samples = sizes[0]}, {.samples = sizes[1]}});
    for (size_t a = 0; a < 4; ++a) swarm.add({});
    swarm.run_for(seconds(20));
    double by_size = 0, equal = 0;   // squared distances of an agent to both answers
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

// All-reduce: when the steps are over, everybody has the same params.
TEST(GroupExchange, WithoutLossIsAllReduce) {
  spdlog::set_level(spdlog::level::off);
  SwarmConfig config = config_of({"", ExchangeKind::kGroup});
  config.stop_after = 300;
  QuadraticSwarm swarm(9, config, links(0));
  for (size_t a = 0; a < 8; ++a) swarm.add({});
  ASSERT_TRUE(swarm.run_until([&] { return swarm.ended(); }, seconds(60)));
  EXPECT_LT(swarm.worst_distance_to(swarm.mean_params()), 1e-6);
  EXPECT_LT(error(swarm), 0.05);
}

// A deadline below the latency: no exchange could ever end.
TEST(Deadline, BelowTheLatencyIsRefusedWithTheRemedy) {
  spdlog::set_level(spdlog::level::off);
  const LinkOptions far{.delay_min = milliseconds(110), .delay_max = milliseconds(115)};
  const LinkOptions farther{.delay_min = milliseconds(350), .delay_max = milliseconds(360)};
  for (const ExchangeKind kind : {ExchangeKind::kPairwise, ExchangeKind::kGroup}) {
    SwarmConfig config = config_of({.name = "", .kind = kind});
    config.membership.probe_interval = seconds(2);
    config.membership.probe_timeout = seconds(1);
    QuadraticSwarm swarm(13, config, kind == ExchangeKind::kGroup ? farther : far);   // it may wait three deadlines
    for (size_t a = 0; a < 4; ++a) swarm.add({});
    try {
      swarm.run_for(seconds(30));
      ADD_FAILURE() << "kind " << static_cast<int>(kind);
    } catch (const std::runtime_error& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("deadline_max gives up after 100ms"), std::string::npos) << what;
      EXPECT_NE(what.find("with a deadline_max of"), std::string::npos) << what;
    }
  }
  // Links that miss the deadline for most blocks, not for all: rounds that are never whole still average.
  SwarmConfig short_one = config_of({.name = "", .kind = ExchangeKind::kGroup});
  short_one.exchange.deadline_min = short_one.exchange.deadline_max = milliseconds(34);
  QuadraticSwarm lossy(13, short_one, {.delay_min = milliseconds(10), .delay_max = milliseconds(90)});
  for (size_t a = 0; a < 8; ++a) lossy.add({});
  EXPECT_NO_THROW(lossy.run_for(seconds(20)));
  // A neighbor's payload counts a round later: such a swarm learns, with a warning.
  QuadraticSwarm late(13, config_of({.name = "", .kind = ExchangeKind::kNeighborhood}), far);
  for (size_t a = 0; a < 4; ++a) late.add({});
  late.run_for(seconds(60));
  EXPECT_LT(error(late), 0.1);
}

TEST(GroupExchange, OfNamedAgentsRefusesAnyOther) {
  spdlog::set_level(spdlog::level::off);
  SwarmConfig config = config_of({"", ExchangeKind::kGroup});
  config.exchange.members = {"agent-0", "agent-1", "agent-2"};
  config.stop_after = 300;
  QuadraticSwarm named(9, config, links(0));
  for (size_t a = 0; a < 3; ++a) named.add({});
  ASSERT_TRUE(named.run_until([&] { return named.ended(); }, seconds(60)));
  EXPECT_LT(named.worst_distance_to(named.mean_params()), 1e-6);

  QuadraticSwarm one_more(9, config, links(0));
  for (size_t a = 0; a < 4; ++a) one_more.add({});
  try {
    one_more.run_for(seconds(5));
    ADD_FAILURE() << "agent-3 trains alone";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("does not name this agent, 'agent-3'"), std::string::npos) << error.what();
  }
}

// Gradients of one step, averaged over everybody: with no loss the replicas never part.
TEST(GroupExchange, SharedGradientsWithoutLossKeepReplicasTogether) {
  spdlog::set_level(spdlog::level::off);
  QuadraticSwarm swarm(11, config_of({.name = "", .kind = ExchangeKind::kGroup, .gradients = true}), links(0));
  for (size_t a = 0; a < 4; ++a) swarm.add({});
  swarm.run_for(seconds(20));
  EXPECT_LT(error(swarm), 0.05);
}

}  // namespace
}  // namespace starling
