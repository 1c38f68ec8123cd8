// Swarms that end while a member of theirs stands still, as with SIGSTOP, is killed, or comes back: nobody may say that
// all models agree while one that was trained to the end is missing.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/sim/ending_swarm.h"
#include "tests/support/log_text.h"
#include "tests/support/seeds.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class OneGivenUp : public testing::TestWithParam<ExchangeCase> {
 protected:
  static bool said(QuadraticSwarm& swarm, size_t a) {
    return swarm.training(a) && swarm.agent(a).rounds()->settled().has_value();
  }
  static bool all_train(QuadraticSwarm& swarm, uint64_t steps) {
    for (size_t a = 0; a < swarm.count(); ++a) {
      if (!swarm.training(a) || swarm.agent(a).rounds()->progress().steps < steps) return false;
    }
    return true;
  }
  static MemberState state_of(QuadraticSwarm& swarm, size_t seen_by, size_t agent) {
    const Member* member = swarm.agent(seen_by).router().membership().find(swarm.id(agent));
    return member ? member->state : MemberState::kDead;
  }
  // All but the last agent say how they ended: not in agreement, and who is missing.
  static void expect_named(QuadraticSwarm& swarm, const LogText& warned, const std::string& where,
                           Duration within = seconds(400)) {
    const size_t last = swarm.count() - 1;
    const auto all_others_say = [&] {
      for (size_t a = 0; a < last; ++a) {
        if (!said(swarm, a)) return false;
      }
      return true;
    };
    ASSERT_TRUE(swarm.run_until(all_others_say, within)) << where;  // one may take its steps alone
    for (size_t a = 0; a < last; ++a) EXPECT_EQ(swarm.agent(a).rounds()->settled(), false) << a << ", " << where;
    EXPECT_NE(warned.text().find("the models do not agree: agent-" + std::to_string(last) + " "), std::string::npos)
        << where << ": " << warned.text();
  }
};

// Before it has told of a model that lies near the others', as their records show each agent.
TEST_P(OneGivenUp, NobodySettlesWithoutOneThatStoodStill) {
  for (const size_t agents : {size_t{2}, size_t{4}}) {
    for (const int after_ms : {-100, 0, 20, 50}) {  // of the moment at which it begins to settle
      const LogText warned(spdlog::level::warn);
      QuadraticSwarm swarm(first_seed(), ending_soon(GetParam()), near_links(0));
      add_agents(swarm, agents);
      const size_t last = agents - 1;
      if (after_ms < 0) {
        ASSERT_TRUE(swarm.run_until([&] { return all_train(swarm, 50); }, seconds(20)));
      } else {
        const auto settles = [&] {
          return swarm.training(last) && swarm.agent(last).rounds()->phase() == Phase::kSettling;
        };
        ASSERT_TRUE(swarm.run_until(settles, seconds(20)));
        swarm.run_for(milliseconds(after_ms));
      }
      if (said(swarm, 0) || farthest_pair(swarm) == 0) continue;  // updates need no time to agree
      swarm.pause(last, true);
      expect_named(swarm, warned, std::to_string(agents) + " agents, " + std::to_string(after_ms) + " ms");
    }
  }
}

// Its partners may have heard that it lies near, or not. Who says that all agree is right.
TEST_P(OneGivenUp, OneThatStandsStillJustBeforeTheEndIsNamedOrAgrees) {
  spdlog::set_level(spdlog::level::off);
  const SwarmConfig config = ending_soon(GetParam());
  for (const int after_ms : {150, 250, 350, 450, 550}) {
    QuadraticSwarm swarm(first_seed(), config, near_links(0));
    add_agents(swarm, 4);
    ASSERT_TRUE(swarm.run_until([&] { return swarm.all_settle(); }, seconds(20)));
    swarm.run_for(milliseconds(after_ms));
    if (said(swarm, 3)) continue;  // it had ended, and leaves
    swarm.pause(3, true);
    ASSERT_TRUE(swarm.run_until([&] { return said(swarm, 0) && said(swarm, 1) && said(swarm, 2); }, seconds(60)));
    for (size_t a = 0; a < 3; ++a) {
      if (!swarm.agent(a).rounds()->settled().value()) continue;
      EXPECT_LE(farthest_pair(swarm), may_be_apart(config)) << a << ", " << after_ms << " ms";
      EXPECT_EQ(state_of(swarm, a, 3), MemberState::kAlive) << a << ", " << after_ms << " ms";
    }
  }
}

// An agent that is slower than the others notices the end of training late, after it has given up who stood still.
TEST_P(OneGivenUp, ASlowAgentMissesItToo) {
  const LogText warned(spdlog::level::warn);
  SwarmConfig config = ending_soon(GetParam());
  if (GetParam().updates) {
    config.local_steps = 8;
    config.stop_after = 60;  // the slow one may take the most of them alone
  }
  QuadraticSwarm swarm(first_seed(), config, near_links(0));
  add_agents(swarm, 2);
  swarm.add({.step_time = seconds(4)});  // eight steps a round: longer than it takes to give up a member
  swarm.add({.step_time = milliseconds(10)});
  const auto settles = [&] {
    return swarm.training(2) && swarm.training(3) && swarm.agent(3).rounds()->phase() == Phase::kSettling;
  };
  ASSERT_TRUE(swarm.run_until(settles, seconds(60)));
  swarm.pause(3, true);
  ASSERT_TRUE(swarm.run_until([&] { return state_of(swarm, 2, 3) == MemberState::kDead; }, seconds(30)));
  ASSERT_EQ(swarm.agent(2).rounds()->phase(), Phase::kTraining);
  expect_named(swarm, warned, "one of four is slow", seconds(700));
}

// While it joins, nobody knows which model it will hold.
TEST_P(OneGivenUp, OneThatIsStartedAgainIsWaitedFor) {
  spdlog::set_level(spdlog::level::off);
  const SwarmConfig config = ending_soon(GetParam());
  QuadraticSwarm swarm(first_seed(), config, near_links(0));
  add_agents(swarm, 4);
  ASSERT_TRUE(swarm.run_until([&] { return swarm.all_settle(); }, seconds(20)));
  swarm.kill(3);
  bool joins = false;
  swarm.network().set_filter([&](PassingFrame& frame) {
    if (!joins && frame.to == swarm.endpoint(3) && message_is<JoinReply>(frame.message)) frame.copies.clear();
  });
  swarm.restart(3);
  swarm.run_for(seconds(2));
  for (size_t a = 0; a < 3; ++a) EXPECT_FALSE(said(swarm, a)) << a;
  joins = true;
  ASSERT_TRUE(swarm.run_until([&] { return swarm.ended(); }, seconds(60)));
  EXPECT_EQ(settled_count(swarm), 4u);
  EXPECT_LE(farthest_pair(swarm), may_be_apart(config));
}

// It was no member any more when training ended.
TEST_P(OneGivenUp, OneThatDiedInTrainingIsNotMissed) {
  spdlog::set_level(spdlog::level::off);
  SwarmConfig config = ending_soon(GetParam());
  config.stop_after = 3000;
  QuadraticSwarm swarm(first_seed(), config, near_links(0));
  add_agents(swarm, 4);
  ASSERT_TRUE(swarm.run_until([&] { return all_train(swarm, 50); }, seconds(20)));
  swarm.kill(3);
  const auto given_up = [&] {
    for (size_t a = 0; a < 3; ++a) {
      if (state_of(swarm, a, 3) != MemberState::kDead) return false;
    }
    return true;
  };
  ASSERT_TRUE(swarm.run_until(given_up, seconds(60)));
  ASSERT_EQ(swarm.agent(0).rounds()->phase(), Phase::kTraining);
  ASSERT_TRUE(swarm.run_until([&] { return swarm.ended(); }, seconds(120)));
  for (size_t a = 0; a < 3; ++a) EXPECT_EQ(swarm.agent(a).rounds()->settled(), true) << a;
}

INSTANTIATE_TEST_SUITE_P(Each, OneGivenUp,
                         testing::Values(ExchangeCase{"pairs", ExchangeKind::kPairwise},
                                         ExchangeCase{"ring", ExchangeKind::kNeighborhood, TopologyKind::kRing},
                                         ExchangeCase{"group", ExchangeKind::kGroup},
                                         ExchangeCase{
                                             .name = "updates", .kind = ExchangeKind::kGroup, .updates = true}),
                         name_of);

}  // namespace
}  // namespace starling
