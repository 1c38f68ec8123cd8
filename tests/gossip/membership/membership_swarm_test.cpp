// What a whole swarm promises, in virtual time: crashes are seen, the living are believed, islands find each
// other.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "tests/gossip/membership/swarm_support.h"
#include "tests/support/seeds.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct Setting {
  size_t nodes;
  double loss;
};

std::string name_of(const testing::TestParamInfo<Setting>& setting) {
  return std::to_string(setting.param.nodes) + "nodes_" + std::to_string(static_cast<int>(100 * setting.param.loss)) +
         "loss";
}

class MembershipSwarmTest : public ::testing::TestWithParam<Setting> {};
class ModerateLoss : public MembershipSwarmTest {};  // what is promised up to 10 %
class Accusers : public MembershipSwarmTest {};      // the same, where there are enough members to accuse one

constexpr Setting kModerate[] = {{3, 0}, {3, 0.1}, {16, 0}, {16, 0.1}, {64, 0}, {64, 0.1}};
INSTANTIATE_TEST_SUITE_P(Swarms, MembershipSwarmTest, ::testing::ValuesIn(kModerate), name_of);
INSTANTIATE_TEST_SUITE_P(LossySwarms, MembershipSwarmTest, ::testing::Values(Setting{16, 0.3}), name_of);
INSTANTIATE_TEST_SUITE_P(Swarms, ModerateLoss, ::testing::ValuesIn(kModerate), name_of);
INSTANTIATE_TEST_SUITE_P(Swarms, Accusers,
                         ::testing::Values(Setting{16, 0}, Setting{16, 0.1}, Setting{64, 0}, Setting{64, 0.1}),
                         name_of);

TEST_P(MembershipSwarmTest, ACrashIsSeenByAll) {
  const Setting setting = GetParam();
  double worst_s = 0, sum_s = 0;
  const int kRuns = setting.nodes > 16 ? 3 : 10;
  for (int run = 0; run < kRuns; ++run) {
    VirtualSwarm swarm(setting.nodes, setting.loss, 100 + static_cast<uint64_t>(run));
    swarm.introduce_all();
    swarm.run_for(milliseconds(20'000 + 137 * run));
    swarm.crash(1);
    const TimePoint crashed = swarm.now();
    ASSERT_TRUE(swarm.run_until([&] { return swarm.seen_dead_by_all(1); }, seconds(60)));
    const double took_s = starling::seconds(swarm.now() - crashed);
    worst_s = std::max(worst_s, took_s);
    sum_s += took_s;
  }
  std::printf("crash seen by all of %zu at %.0f %% loss: mean %.1f s, worst %.1f s\n", setting.nodes,
              100 * setting.loss, sum_s / kRuns, worst_s);
  EXPECT_LE(worst_s, setting.loss > 0.2 ? 30 : 20);
}

TEST_P(ModerateLoss, NobodyDiesWhoLives) {
  const Setting setting = GetParam();
  VirtualSwarm swarm(setting.nodes, setting.loss, 3);
  swarm.introduce_all();
  const Duration time = setting.nodes > 16 ? minutes(5) : minutes(30);
  size_t died = 0, suspected = 0;
  for (int part = 0; part < 60; ++part) {
    swarm.run_for(time / 60);
    for (size_t i = 0; i < swarm.size(); ++i) {
      for (const MemberEvent& event : swarm.take_events(i)) {
        died += event.kind == MemberEventKind::kDied;
        suspected += event.kind == MemberEventKind::kSuspected;
      }
    }
  }
  std::printf("%zu nodes, %.0f %% loss, %.0f min: %zu suspected, %zu died, %.1f frames/s a node\n", setting.nodes,
              100 * setting.loss, starling::seconds(time) / 60, suspected, died,
              static_cast<double>(swarm.frames()) / starling::seconds(time) / static_cast<double>(setting.nodes));
  EXPECT_EQ(died, 0u);
  if (setting.loss == 0) {
    EXPECT_EQ(suspected, 0u);
  }
}

TEST_P(MembershipSwarmTest, AJoinSpreadsInLogarithmicTime) {
  const Setting setting = GetParam();
  VirtualSwarm swarm(setting.nodes, setting.loss, 4);
  swarm.introduce_all();
  swarm.run_for(seconds(20));
  const size_t newcomer = swarm.add_node();
  for (const PeerRecord& record : swarm.at(0).sample_records(64)) swarm.at(newcomer).add(record);
  swarm.at(0).add(swarm.at(newcomer).self());
  const TimePoint joined = swarm.now();
  ASSERT_TRUE(swarm.run_until([&] { return swarm.all_agree(); }, seconds(60)));
  const double periods = starling::seconds(swarm.now() - joined) / 0.2;
  std::printf("join known to all of %zu at %.0f %% loss after %.1f gossip periods\n", setting.nodes + 1,
              100 * setting.loss, periods);
  const double bound = (setting.loss > 0.2 ? 40 : 4) * std::log2(static_cast<double>(setting.nodes + 1));
  EXPECT_LE(periods, std::max(8.0, bound));
}

TEST_P(Accusers, RefutationAlwaysWins) {
  const Setting setting = GetParam();
  VirtualSwarm swarm(setting.nodes, setting.loss, 5);
  swarm.introduce_all();
  swarm.run_for(seconds(5));
  for (int attack = 0; attack < 20; ++attack) {
    // One liar tells one member that another is suspected by three.
    const auto victim = static_cast<uint32_t>(attack % 3);
    Updates lie;
    for (uint32_t accuser = 3; accuser < std::min<uint32_t>(6, static_cast<uint32_t>(setting.nodes)); ++accuser) {
      lie.suspect.push_back({peer_of(victim), swarm.at(victim).self().version, peer_of(accuser)});
    }
    swarm.at(setting.nodes - 1).handle(peer_of(4), Gossip{lie});
    swarm.run_for(seconds(6));
  }
  EXPECT_GT(swarm.at(0).counters().refutations, 0u);
  EXPECT_TRUE(swarm.run_until([&] { return swarm.all_agree(); }, seconds(30)));
  EXPECT_EQ(swarm.count_events(MemberEventKind::kDied), 0u);
}

TEST_P(ModerateLoss, AHealedSplitIsWholeWithin30Seconds) {
  const Setting setting = GetParam();
  double worst_s = 0;
  for (uint64_t run = 0; run < seed_count(5); ++run) {
    VirtualSwarm swarm(setting.nodes, setting.loss, 60 + run);
    swarm.introduce_all();
    swarm.run_for(seconds(5));
    std::vector<int> sides(setting.nodes);
    for (size_t i = 0; i < sides.size(); ++i) sides[i] = run % 2 == 0 ? i % 2 : i == 1;
    swarm.cut(sides);
    swarm.run_for(seconds(150));
    for (size_t i = 1; i < setting.nodes; ++i) {
      if (sides[i] == sides[0]) continue;
      ASSERT_EQ(swarm.at(0).find(peer_of(static_cast<uint32_t>(i)))->state, MemberState::kDead);
    }
    swarm.cut({});
    const TimePoint healed = swarm.now();
    ASSERT_TRUE(swarm.run_until([&] { return swarm.all_agree(); }, seconds(120)));
    worst_s = std::max(worst_s, starling::seconds(swarm.now() - healed));
  }
  std::printf("split of %zu at %.0f %% loss healed within %.1f s\n", setting.nodes, 100 * setting.loss, worst_s);
  EXPECT_LE(worst_s, 30);
}

// All machines lose power but one; each comes back knowing nobody but a seed.
TEST_P(ModerateLoss, AMassRestartLeavesNobodyStuck) {
  const Setting setting = GetParam();
  for (const Duration down : {Duration(milliseconds(500)), Duration(seconds(60))}) {
    VirtualSwarm swarm(setting.nodes, setting.loss, 6);
    swarm.introduce_all();
    swarm.run_for(seconds(10));
    for (size_t i = 1; i < setting.nodes; ++i) swarm.crash(i);
    swarm.run_for(down);
    swarm.take_events(0);
    for (size_t i = 1; i < setting.nodes; ++i) {
      swarm.restart(i, 2);
      swarm.at(i).set_seeds({endpoint_of(0)});
    }
    const TimePoint restarted = swarm.now();
    const auto all_new = [&] {
      for (size_t i = 0; i < swarm.size(); ++i) {
        for (const Member& member : swarm.at(i).alive()) {
          if (member.record.id != peer_of(0) && member.record.version.generation != 2) return false;
        }
      }
      return swarm.all_agree();
    };
    EXPECT_TRUE(swarm.run_until(all_new, seconds(60)));
    std::printf("%zu nodes restarted after %.1f s agree after %.1f s\n", setting.nodes, starling::seconds(down),
                starling::seconds(swarm.now() - restarted));
    size_t restarts = 0;
    for (const MemberEvent& event : swarm.take_events(0)) {
      restarts += event.kind == MemberEventKind::kRestarted;
    }
    EXPECT_EQ(restarts, setting.nodes - 1);
  }
}

TEST_P(ModerateLoss, APausedNodeComesBack) {
  const Setting setting = GetParam();
  for (const Duration pause : {Duration(seconds(5)), Duration(seconds(120))}) {
    VirtualSwarm swarm(setting.nodes, setting.loss, 7);
    swarm.introduce_all();
    swarm.run_for(seconds(10));
    swarm.take_events(1);
    swarm.pause(1, true);
    swarm.run_for(pause);
    if (pause > minutes(1)) {
      EXPECT_TRUE(swarm.seen_dead_by_all(1));
    }
    swarm.pause(1, false);
    const TimePoint resumed = swarm.now();
    ASSERT_TRUE(swarm.run_until([&] { return swarm.all_agree(); }, seconds(30)));
    std::printf("%zu nodes: paused for %.0f s, back with all after %.1f s\n", setting.nodes, starling::seconds(pause),
                starling::seconds(swarm.now() - resumed));
    for (const MemberEvent& event : swarm.take_events(1)) {
      EXPECT_NE(event.kind, MemberEventKind::kDied) << "its own sleep killed " << event.peer.short_name();
    }
  }
}

TEST(MembershipSwarm, TwoIslandsWithOneCommonSeedMeet) {
  VirtualSwarm swarm(9, 0, 8);
  for (uint32_t i = 1; i <= 8; ++i) swarm.at(i).set_seeds({endpoint_of(i <= 4 ? 1 : 5)});
  swarm.run_for(seconds(30));
  ASSERT_EQ(swarm.at(1).alive().size(), 3u);
  ASSERT_EQ(swarm.at(5).alive().size(), 3u);
  swarm.at(2).set_seeds({endpoint_of(0)});
  swarm.at(6).set_seeds({endpoint_of(0)});
  EXPECT_TRUE(swarm.run_until([&] { return swarm.all_agree(); }, minutes(5)));
}

TEST(MembershipSwarm, LeavingIsKnownToAllAtOnceAndIsNoDeath) {
  VirtualSwarm swarm(16, 0.1, 9);
  swarm.introduce_all();
  swarm.run_for(seconds(10));
  swarm.at(3).announce_leave();
  swarm.run_for(milliseconds(100));
  swarm.crash(3);
  swarm.run_for(seconds(2));
  for (size_t i = 0; i < swarm.size(); ++i) {
    if (i != 3) {
      EXPECT_EQ(swarm.at(i).find(peer_of(3))->state, MemberState::kLeft) << i;
    }
  }
  swarm.run_for(seconds(60));
  EXPECT_EQ(swarm.count_events(MemberEventKind::kDied), 0u);
}

TEST(MembershipSwarm, StatusReachesEverybody) {
  VirtualSwarm swarm(16, 0.1, 10);
  swarm.introduce_all();
  for (uint64_t step = 1; step <= 100; ++step) {
    for (size_t i = 0; i < swarm.size(); ++i) {
      MemberMeta meta = swarm.at(i).self().meta;
      meta.steps = step;
      swarm.at(i).update_self(meta);
    }
    swarm.run_for(milliseconds(100));
  }
  EXPECT_TRUE(swarm.run_until(
      [&] {
        for (size_t i = 0; i < swarm.size(); ++i) {
          for (const Member& member : swarm.at(i).alive()) {
            if (member.record.meta.steps != 100) return false;
          }
        }
        return true;
      },
      seconds(20)));
}

TEST(MembershipSwarm, TheSameSeedGivesTheSameFrames) {
  uint64_t frames[2], digests[2];
  for (size_t run = 0; run < 2; ++run) {
    VirtualSwarm swarm(16, 0.2, 11);
    swarm.introduce_all();
    swarm.run_for(seconds(30));
    swarm.crash(2);
    swarm.run_for(seconds(30));
    frames[run] = swarm.frames();
    digests[run] = swarm.digest();
  }
  EXPECT_EQ(frames[0], frames[1]);
  EXPECT_EQ(digests[0], digests[1]) << "to the byte";
  EXPECT_GT(frames[0], 1000u);
}

}  // namespace
}  // namespace starling
