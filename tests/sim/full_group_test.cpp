// An agent that comes to a full group, of 32 members for updates and 16 for params: the newest leaves, the rest go on.
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

constexpr Duration kLeavesWithin = seconds(5);  // of when it sees that the places are taken

class FullSwarm : public QuadraticSwarm {
 public:
  struct Exit {
    size_t agent;
    TimePoint at;
    std::string why;
  };

  FullSwarm(uint64_t seed, size_t members, SourceKind source = SourceKind::kUpdates)
      : QuadraticSwarm(seed, settings(source), near_links(0)), places_(source == SourceKind::kParams ? 16 : 32) {
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

  bool sees_all_places_taken(size_t a) { return alive(a) && agent(a).router().membership().alive_count() >= places_; }
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
  static SwarmConfig settings(SourceKind source) {
    SwarmConfig swarm = quadratic_settings(source == SourceKind::kParams ? 1024 : 256, 0.05f, 0);
    swarm.weight = "equal";
    swarm.exchange.kind = ExchangeKind::kGroup;
    swarm.exchange.codec = CodecKind::kFp32;
    swarm.exchange.source = source;
    swarm.exchange.block = 64;  // one for each member
    swarm.stop_after = 1'000'000;
    return swarm;
  }

  const size_t places_;
  std::vector<Exit> exits_;
  size_t newcomers_ = 0;
};

void expect_remedy(const std::string& why, const std::string& most = "at most 32 members") {
  EXPECT_NE(why.find(most), std::string::npos) << why;
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

TEST(FullGroup, OfUpdatesTheThirtyThirdLeavesWithTheRemedy) {
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
TEST(FullGroup, TwoThatComeAtOnceThroughTwoDonorsBothLeave) {
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
TEST(FullGroup, OfTwoThatComeForTheLastPlaceTheNewestLeaves) {
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

// The sixteen average on with each other alone, and all their blocks count.
TEST(FullGroup, OfParamsTheSeventeenthLeavesWithTheRemedy) {
  spdlog::set_level(spdlog::level::off);
  FullSwarm swarm(13, 16, SourceKind::kParams);
  const size_t newcomer = swarm.join_through(3);
  const auto seen = run_until_left(swarm, {newcomer}, 1);
  ASSERT_EQ(swarm.exits().size(), 1u) << "17 are in a group";
  EXPECT_EQ(swarm.exits()[0].agent, newcomer);
  expect_remedy(swarm.exits()[0].why, "at most 16 members");
  ASSERT_TRUE(seen[0]);
  EXPECT_LE(swarm.exits()[0].at - *seen[0], kLeavesWithin);
  const GroupCounters before = swarm.agent(0).room_status().group;
  swarm.run_for(seconds(3));
  const GroupCounters after = swarm.agent(0).room_status().group;
  EXPECT_GT(after.rounds_whole, before.rounds_whole + 20);
  EXPECT_GE(after.rounds_whole - before.rounds_whole + 1, after.rounds - before.rounds) << "one may be under way";
  for (size_t a = 0; a < 16; ++a) EXPECT_TRUE(swarm.living(a)) << "agent " << a;
}

}  // namespace
}  // namespace starling
