// Whole agents with every exchange: they learn under loss, through deaths and births, and say what they cannot do.
#include <algorithm>

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "tests/sim/exchange_cases.h"
#include "tests/support/seeds.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Exchanges : public testing::TestWithParam<ExchangeCase> {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }
};

TEST_P(Exchanges, LearnUnderLossThroughADeathAndABirth) {
  QuadraticSwarm swarm(5, config_of(GetParam()), near_links(0.05));
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
    EXPECT_LT(swarm.worst_distance_to(swarm.mean_params()), 1.2);  // pairs on a ring mix slowest
  }
}

TEST_P(Exchanges, TheSameSeedGivesTheSameRun) {
  const auto run = [] {
    QuadraticSwarm swarm(7, config_of(GetParam()), near_links(0.1));
    for (size_t a = 0; a < 5; ++a) swarm.add({});
    swarm.run_for(seconds(4));
    return swarm.digest();
  };
  EXPECT_EQ(run(), run());
}

INSTANTIATE_TEST_SUITE_P(Kinds, Exchanges, every_exchange(), name_of);

// No agent is special: whichever of five are gone, the others go on and meet. In pairs nobody waits for the dead; a
// neighbor or a group does, a deadline a round, until the membership knows them dead.
TEST(AnySubset, MayDie) {
  spdlog::set_level(spdlog::level::off);
  for (const ExchangeKind kind : {ExchangeKind::kPairwise, ExchangeKind::kNeighborhood, ExchangeKind::kGroup}) {
    constexpr uint32_t kSubsets = 30;  // of five agents; neither none nor all
    for (uint64_t draw = 0, draws = seed_count(kSubsets); draw < draws; ++draw) {
      const uint32_t dead = 1 + static_cast<uint32_t>(draw * std::max(kSubsets / draws, uint64_t{1}) % kSubsets);
      const SwarmConfig config = config_of({.name = "", .kind = kind, .topology = TopologyKind::kRing});
      QuadraticSwarm swarm(1 + draw, config, near_links(0));
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

// A deadline below the latency: no exchange could ever end.
TEST(Deadline, BelowTheLatencyIsRefusedWithTheRemedy) {
  spdlog::set_level(spdlog::level::off);
  const LinkOptions far{.delay_min = milliseconds(110), .delay_max = milliseconds(115)};
  const LinkOptions farther{.delay_min = milliseconds(350), .delay_max = milliseconds(360)};
  for (const ExchangeKind kind : {ExchangeKind::kPairwise, ExchangeKind::kGroup}) {
    SwarmConfig config = config_of({.name = "", .kind = kind});
    config.membership.probe_interval = seconds(2);
    config.membership.probe_timeout = seconds(1);
    QuadraticSwarm swarm(13, config, kind == ExchangeKind::kGroup ? farther : far);  // it may wait three deadlines
    // Slow enough for all to begin at step 0. Who fetches a newer model lags, and blocks that wait for it are in time.
    for (size_t a = 0; a < 4; ++a) swarm.add({.step_time = seconds(1)});
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
  QuadraticSwarm named(9, config, near_links(0));
  for (size_t a = 0; a < 3; ++a) named.add({});
  ASSERT_TRUE(named.run_until([&] { return named.ended(); }, seconds(60)));
  EXPECT_LT(named.worst_distance_to(named.mean_params()), 1e-6);

  QuadraticSwarm one_more(9, config, near_links(0));
  for (size_t a = 0; a < 4; ++a) one_more.add({});
  try {
    one_more.run_for(seconds(5));
    ADD_FAILURE() << "agent-3 trains alone";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("does not name this agent, 'agent-3'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace starling
