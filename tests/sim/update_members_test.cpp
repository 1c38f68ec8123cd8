// Who comes to a swarm of updates when its 32 places are taken: the newest leave, and the others go on.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "gossip/limits.h"
#include "tests/sim/quadratic_swarm.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLeavesWithin = seconds(5);   // of when it sees that the places are taken

class FullSwarm : public QuadraticSwarm {
 public:
  struct Exit {
    size_t agent;
    TimePoint at;
    std::string why;
  };

  FullSwarm(uint64_t seed, size_t members) : QuadraticSwarm(seed, settings(), near_links(0)) {
    set_on_failure([this](size_t agent, const std::string& why) { exits_.push_back({agent, clock().now(), why}); });
    for (size_t a = 0; a < members; ++a) add({});
    run_for(seconds(2));
  }

  // Of a generation later than that of all before it.
  size_t join_through(size_t donor) {
    const size_t newcomer = add({.bootstrap = {donor}, .adopt_settings = true});
    for (size_t later = 0; later <= newcomers_; ++later) restart(newcomer);
    ++newcomers_;
    return newcomer;
  }

  bool sees_all_places_taken(size_t a) {
    return alive(a) && agent(a).router().membership().alive_count() >= kUpdateMembersMax;
  }
  const std::vector<Exit>& exits() const { return exits_; }

  // Nobody else left, all hold one log, and it grows.
  void expect_the_first_go_on(size_t members) {
    ASSERT_EQ(exits_.size(), count() - members);
    const uint64_t before = agent(0).updates()->log(0).head().length;
    const auto one_log = [&] {
      for (size_t a = 0; a < members; ++a) {
        if (agent(a).updates()->log(0).head() != agent(0).updates()->log(0).head()) return false;
      }
      return agent(0).updates()->log(0).head().length > before + 20;
    };
    EXPECT_TRUE(run_until(one_log, seconds(10)));
    for (size_t a = 0; a < members; ++a) EXPECT_TRUE(living(a)) << "agent " << a;
  }

 private:
  static SwarmConfig settings() {
    SwarmConfig swarm = quadratic_settings(256, 0.05f, 0);
    swarm.weight = "equal";
    swarm.exchange.kind = ExchangeKind::kGroup;
    swarm.exchange.source = SourceKind::kUpdates;
    swarm.stop_after = 1'000'000;
    return swarm;
  }

  std::vector<Exit> exits_;
  size_t newcomers_ = 0;
};

void expect_remedy(const std::string& why) {
  EXPECT_NE(why.find("at most 32 members"), std::string::npos) << why;
  EXPECT_NE(why.find("kind: pairwise"), std::string::npos) << why;
}

// Runs until so many have left, and says when each newcomer saw for the first time that all places were taken.
std::vector<std::optional<TimePoint>> run_until_left(FullSwarm& swarm, const std::vector<size_t>& newcomers,
                                                     size_t left) {
  std::vector<std::optional<TimePoint>> seen(newcomers.size());
  const bool all = swarm.run_until(
      [&] {
        for (size_t i = 0; i < newcomers.size(); ++i) {
          if (!seen[i] && swarm.sees_all_places_taken(newcomers[i])) seen[i] = swarm.clock().now();
        }
        return swarm.exits().size() >= left;
      },
      seconds(20));
  EXPECT_TRUE(all) << swarm.exits().size() << " of " << left << " left";
  return seen;
}

TEST(UpdateMembers, TheThirtyThirdLeavesWithTheRemedy) {
  spdlog::set_level(spdlog::level::off);
  FullSwarm swarm(10, 32);
  const size_t newcomer = swarm.join_through(3);
  const auto seen = run_until_left(swarm, {newcomer}, 1);
  ASSERT_EQ(swarm.exits().size(), 1u) << "33 share updates";
  EXPECT_EQ(swarm.exits()[0].agent, newcomer);
  expect_remedy(swarm.exits()[0].why);
  ASSERT_TRUE(seen[0]);
  EXPECT_LE(swarm.exits()[0].at - *seen[0], kLeavesWithin);
  swarm.expect_the_first_go_on(32);
}

// Neither donor knows of the other's newcomer.
TEST(UpdateMembers, TwoThatComeAtOnceThroughTwoDonorsBothLeave) {
  spdlog::set_level(spdlog::level::off);
  FullSwarm swarm(11, 32);
  const std::vector<size_t> newcomers{swarm.join_through(3), swarm.join_through(17)};
  const auto seen = run_until_left(swarm, newcomers, 2);
  ASSERT_EQ(swarm.exits().size(), 2u);
  for (const FullSwarm::Exit& exit : swarm.exits()) {
    ASSERT_GE(exit.agent, 32u) << "an older member left";
    expect_remedy(exit.why);
    ASSERT_TRUE(seen[exit.agent - 32]);
    EXPECT_LE(exit.at - *seen[exit.agent - 32], kLeavesWithin) << "agent " << exit.agent;
  }
  swarm.expect_the_first_go_on(32);
}

// One place is left, and two donors let in one each: who began first stays.
TEST(UpdateMembers, OfTwoThatComeForTheLastPlaceTheNewestLeaves) {
  spdlog::set_level(spdlog::level::off);
  FullSwarm swarm(12, 31);
  const size_t first = swarm.join_through(3), newest = swarm.join_through(17);
  const auto seen = run_until_left(swarm, {newest}, 1);
  ASSERT_EQ(swarm.exits().size(), 1u) << "33 share updates";
  EXPECT_EQ(swarm.exits()[0].agent, newest);
  expect_remedy(swarm.exits()[0].why);
  ASSERT_TRUE(seen[0]);
  EXPECT_LE(swarm.exits()[0].at - *seen[0], kLeavesWithin);
  EXPECT_TRUE(swarm.training(first));
  swarm.expect_the_first_go_on(32);
}

}  // namespace
}  // namespace starling
