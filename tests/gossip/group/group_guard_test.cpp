// Who is left out of a group's averages, and that honest members never are.
#include "gossip/group/group_guard.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "gossip/exchange/paces.h"
#include "tests/gossip/exchange/guarded_training.h"
#include "tests/gossip/group/group_rounds.h"
#include "tests/support/seeds.h"

namespace starling::exchange_test {
namespace {

// ---- the rule

std::vector<bool> far(const FarRule& rule, const std::vector<double>& squares) {
  std::vector<Contributed> all;
  for (double one : squares) all.push_back({one, 1});
  return far_ones(rule, all);
}
using Far = std::vector<bool>;

TEST(FarOnes, AreBeyondThreeTimesTheSecondLargest) {
  const FarRule rule{3, 1, 1};
  EXPECT_EQ(far(rule, {1, 1, 9}), (Far{false, false, false}));
  EXPECT_EQ(far(rule, {1, 1, 9.1}), (Far{false, false, true}));
  EXPECT_EQ(far(rule, {1, 4, 35}), (Far{false, false, false}));
  EXPECT_EQ(far(rule, {1, 1, 1, 4, 35}), (Far{false, false, false, false, false})) << "the median is no measure";
  EXPECT_EQ(far(rule, {1, 4, 37}), (Far{false, false, true}));
  EXPECT_EQ(far(rule, {0, 0.1, 8}), (Far{false, false, false})) << "no farther than usual";
  EXPECT_EQ(far(rule, {1, 100, 100}), (Far{false, false, false})) << "halves";
  EXPECT_EQ(far(rule, {8}), (Far{false}));
  EXPECT_EQ(far({0, 1, 1}, {1, 1, 1e12}), (Far{false, false, false})) << "no guard";
}

// So honest members cannot leave out each other in numbers.
TEST(FarOnes, AreAsManyAsMayBeBroken) {
  EXPECT_EQ(far({3, 1, 1}, {1, 1, 30, 1, 3}), (Far{false, false, true, false, false}));
  EXPECT_EQ(far({3, 100, 1}, {1, 1, 1000, 2000, 1}), (Far{false, false, false, false, false})) << "one is not farther";
  EXPECT_EQ(far({3, 100, 2}, {1, 1, 1000, 2000, 1}), (Far{false, false, true, true, false}));
  EXPECT_EQ(far({3, 100, 2}, {1, 1000, 1000, 2000, 1}), (Far{false, false, false, false, false})) << "three";
  EXPECT_EQ(far({3, 1, 2}, {1, 30}), (Far{false, true})) << "of two, one at most";
}

TEST(FarOnes, AreScaledByTheirSteps) {
  EXPECT_EQ(far_ones({3, 1, 1}, {{1, 1}, {1, 1}, {9 * 64 - 1, 8}}), (Far{false, false, false}));
  EXPECT_EQ(far_ones({3, 1, 1}, {{1, 1}, {1, 1}, {9 * 64 + 1, 8}}), (Far{false, false, true}));
}

TEST(FarOnes, AreGrosslyFarWhileWhatWasUsualSaysNothing) {
  for (const double usual : {0.0, 1e-10}) {  // not known; long past
    EXPECT_EQ(far({3, usual, 1}, {1, 1, 9999}), (Far{false, false, false}));
    EXPECT_EQ(far({3, usual, 1}, {1, 1, 10001}), (Far{false, false, true}));
  }
  EXPECT_EQ(far({3, 0, 1}, {0, 0, 5}), (Far{false, false, false})) << "nothing to compare with";
}

TEST(Paces, FollowFromTheMasses) {
  EXPECT_EQ(paces_of({1, 1, 0.125, 4}), (std::vector<double>{1, 1, 8, 1}));
  EXPECT_EQ(paces_of({1, 1, 1e-9}), (std::vector<double>{1, 1, 8})) << "claimed";
  EXPECT_EQ(paces_of({0.125, 1}), (std::vector<double>{8, 1}));
  EXPECT_TRUE(paces_of({}).empty());
}

struct Judge {
  Layout layout = Layout::cut({{"params", 64}, {"momentum", 64}}, 16);
  GroupGuard guard{layout, GroupGuard::kFar};
  GroupMembers members;
  uint64_t round = 0;
  Judge() {
    for (uint8_t tag = 1; tag <= 4; ++tag) members.ids.push_back(test_peer(tag));
  }
  std::vector<uint32_t> end_round(const std::vector<std::optional<double>>& squares) {
    return guard.refused(members, round++, squares, 0);
  }
};

// Block k belongs to rank k, then to rank k + 1 and so on, four rounds each; rank 0 judges.
TEST(GroupGuard, RefusesTheAverageOfOneOwnerButNotOfTheNext) {
  Judge judge;
  const std::vector<std::optional<double>> usual(8, 1.0);
  std::vector<std::optional<double>> far = usual;
  far[1] = 1000;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(judge.end_round(usual).empty());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(judge.end_round(far), std::vector<uint32_t>{1});
  EXPECT_TRUE(judge.end_round(far).empty()) << "a second owner says so too";
}

TEST(GroupGuard, RefusesNothingWhereAllAreFar) {
  Judge judge;
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(judge.end_round(std::vector<std::optional<double>>(8, 1.0)).empty());
  EXPECT_TRUE(judge.end_round(std::vector<std::optional<double>>(8, 1e12)).empty());
}

TEST(GroupGuard, RoundsWithoutAnAverageMakeTheNextOneFarther) {
  Judge judge;
  std::vector<std::optional<double>> squares(8, 1.0);
  for (int i = 0; i < 4; ++i) (void)judge.end_round(squares);
  squares[1].reset();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(judge.end_round(squares).empty());
  squares[1] = 16 * 30;  // four times as far, and not beyond 9 times the section's 4
  EXPECT_TRUE(judge.end_round(squares).empty());
  EXPECT_EQ(judge.end_round(squares), std::vector<uint32_t>{1}) << "none is missed now";
}

// A small model is in one block, whose owner's average has only the past to be compared with.
TEST(GroupGuard, StepsThatGrowMakeTheAverageOfOneOwnerFarther) {
  const Layout layout = Layout::cut({{"params", 64}, {"momentum", 64}}, 64);
  GroupGuard guard(layout, GroupGuard::kFar);
  GroupMembers members;
  for (uint8_t tag = 1; tag <= 4; ++tag) members.ids.push_back(test_peer(tag));
  members.self = 3;
  uint64_t round = 0;
  const auto end_round = [&](double squares, double drift) {
    return guard.refused(members, round++, {squares, 100 * squares}, drift);
  };
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(end_round(1, 0.1).empty());
  EXPECT_TRUE(end_round(800, 1).empty()) << "the own steps are 10 times as large";
  EXPECT_EQ(end_round(1000, 1), std::vector<uint32_t>{0});
  EXPECT_EQ(end_round(100, 0.1), std::vector<uint32_t>{0});
  EXPECT_EQ(end_round(100, 0), std::vector<uint32_t>{0}) << "not known";
}

TEST(GroupGuard, WhatASecondOwnerSaysTooIsUsualFromThenOnWhereOneOwnsAll) {
  const Layout layout = Layout::cut({{"params", 64}}, 64);
  GroupGuard guard(layout, GroupGuard::kFar);
  GroupMembers members;
  for (uint8_t tag = 1; tag <= 8; ++tag) members.ids.push_back(test_peer(tag));
  members.self = 7;
  uint64_t round = 0;
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(guard.refused(members, round++, {1.0}, 0).empty());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(guard.refused(members, round++, {100.0}, 0).size(), 1u);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(guard.refused(members, round++, {100.0}, 0).empty()) << i;
  EXPECT_TRUE(guard.refused(members, round++, {800.0}, 0).empty());
  EXPECT_EQ(guard.refused(members, round++, {1000.0}, 0).size(), 1u) << "it guards as before";
}

TEST(GroupGuard, JudgesEachSectionByItself) {
  Judge judge;
  std::vector<std::optional<double>> squares = {1, 1, 1, 1, 1e4, 1e4, 1e4, 1e4};
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(judge.end_round(squares).empty());
  EXPECT_NEAR(judge.guard.rule(0, 8, 0).usual_squares, 8, 1e-9);
  EXPECT_NEAR(judge.guard.rule(4, 8, 0).usual_squares, 8e4, 1e-6);
  EXPECT_EQ(judge.guard.rule(0, 8, 0).factor, 3);
  EXPECT_EQ(judge.guard.rule(4, 8, 0).factor, 10);
  EXPECT_EQ(judge.guard.rule(0, 3, 0).factor, 10);
  EXPECT_EQ(judge.guard.rule(0, 2, 0).factor, 0);
  EXPECT_EQ(judge.guard.rule(0, 15, 0).most, 1u);
  EXPECT_EQ(judge.guard.rule(0, 16, 0).most, 2u);
}

// ---- whole groups that train

struct HonestCase {
  const char* name;
  Training<Group> training;
};

class HonestMembers : public testing::TestWithParam<HonestCase> {};

// The same bytes as without a guard.
TEST_P(HonestMembers, AreNeverLeftOut) {
  for (uint64_t seed = first_seed(); seed < first_seed() + seed_count(2); ++seed) {
    Training<Group> training = GetParam().training;
    training.rounds = 60;
    const Trained guarded = train(training, seed);
    training.guarded = false;
    const Trained without = train(training, seed);
    EXPECT_EQ(guarded.far, 0u) << seed;
    EXPECT_EQ(guarded.digest, without.digest) << seed;
  }
}

double rise(int round) { return round < 30 ? 0.03 : 1; }
double dip(int round) { return round >= 20 && round < 40 ? 1e-5 : 1; }

INSTANTIATE_TEST_SUITE_P(
    All, HonestMembers,
    testing::Values(HonestCase{"alike", {.noise = 10}}, HonestCase{"apart", {}},
                    HonestCase{"by_class", {.by_class = true}},
                    HonestCase{"by_class_in_small_blocks", {.block = 64, .by_class = true}},
                    HonestCase{"two", {.members = 2, .by_class = true}},
                    HonestCase{"three", {.members = 3, .by_class = true}},
                    HonestCase{"three_one_fast", {.members = 3, .block = 512, .by_class = true, .fast = 1}},
                    HonestCase{"three_a_tenth_lost", {.members = 3, .block = 512, .by_class = true, .loss = 0.1}},
                    HonestCase{"four_one_fast", {.members = 4, .block = 512, .by_class = true, .fast = 1}},
                    HonestCase{"four_a_tenth_lost", {.members = 4, .block = 512, .by_class = true, .loss = 0.1}},
                    HonestCase{"four_by_class", {.members = 4, .block = 512, .by_class = true}},
                    HonestCase{"five_by_class", {.members = 5, .block = 512, .by_class = true}},
                    HonestCase{"sixteen_by_class", {.members = 16, .block = 256, .by_class = true}},
                    HonestCase{"one_fast", {.block = 512, .by_class = true, .fast = 1}},
                    HonestCase{"three_fast", {.block = 512, .by_class = true, .fast = 3}},
                    HonestCase{"one_slow", {.block = 512, .by_class = true, .fast = 7}},
                    HonestCase{"a_tenth_lost", {.block = 256, .by_class = true, .loss = 0.1}},
                    HonestCase{"rate_rises_in_one_block", {.rate_factor = rise}},
                    HonestCase{"rate_rises_by_class_in_one_block", {.by_class = true, .rate_factor = rise}},
                    HonestCase{"rate_rises", {.block = 512, .by_class = true, .rate_factor = rise}},
                    HonestCase{"rate_dips", {.block = 512, .by_class = true, .rate_factor = dip}}),
    [](const auto& info) { return info.param.name; });

// Whoever is far away through no fault of its own is near again soon.
struct ReturnCase {
  const char* name;
  Training<Group> training;
};

class Returns : public testing::TestWithParam<ReturnCase> {};

TEST_P(Returns, WithinAHundredRounds) {
  constexpr int kMovedAt = 40;
  Training<Group> training = GetParam().training;
  training.rounds = kMovedAt + 100;
  const auto& move = GetParam().training.before_round;
  training.before_round = [&](int round, GroupSwarm& swarm) {
    if (round == kMovedAt) move(round, swarm);
  };
  const Trained trained = train(training);
  const double usual = trained.spreads[kMovedAt - 1];
  int back = 0;
  while (kMovedAt + back < training.rounds && trained.spreads[static_cast<size_t>(kMovedAt + back)] > 2 * usual) ++back;
  std::printf("%s: left out %llu, spread below twice the usual after %d rounds, at the end %.2f of it\n",
              GetParam().name, static_cast<unsigned long long>(trained.far), back, trained.spreads.back() / usual);
  EXPECT_LT(back, 100);
  EXPECT_LT(trained.spreads.back(), 2 * usual);
}

void throw_one(int, GroupSwarm& swarm) { throw_away(swarm, 3, 3); }
void throw_half(int, GroupSwarm& swarm) { throw_away(swarm, 1, static_cast<uint8_t>(swarm.agents.size() / 2)); }

INSTANTIATE_TEST_SUITE_P(
    All, Returns,
    testing::Values(ReturnCase{"one", {.block = 512, .before_round = throw_one, .loss = 0.05}},
                    ReturnCase{"one_in_a_single_block", {.before_round = throw_one, .loss = 0.05}},
                    ReturnCase{"one_by_class",
                               {.block = 512, .by_class = true, .before_round = throw_one, .loss = 0.05}},
                    ReturnCase{"one_of_four", {.members = 4, .block = 512, .before_round = throw_one, .loss = 0.05}},
                    ReturnCase{"half", {.block = 512, .before_round = throw_half, .loss = 0.05}},
                    ReturnCase{"half_in_a_single_block", {.before_round = throw_half, .loss = 0.05}},
                    ReturnCase{"half_of_four", {.members = 4, .block = 512, .before_round = throw_half, .loss = 0.05}}),
    [](const auto& info) { return info.param.name; });

// ---- liars

struct LiarCase {
  const char* name;
  Training<Group> training;
  double of_gross, of_others;  // what the healthy may lose, in units of a run without the liar
  bool unguarded_too = false;
};

class OneLiar : public testing::TestWithParam<LiarCase> {};

TEST_P(OneLiar, CostsTheOthersLittle) {
  for (uint64_t seed = first_seed(); seed < first_seed() + seed_count(1); ++seed) {
    Training<Group> training = GetParam().training;
    training.gone = true;
    const Trained without = train(training, seed);
    training.gone = false;
    for (const Lie& lie : lies()) {
      training.lie = lie.tell;
      training.guarded = true;
      const Trained guarded = train(training, seed);
      std::printf("%-28s loss x %.3f, left out %llu\n", lie.name, guarded.loss / without.loss,
                  static_cast<unsigned long long>(guarded.far));
      if (GetParam().unguarded_too && seed == first_seed()) {
        training.guarded = false;
        std::printf("%-28s loss x %.3g without a guard\n", "", train(training, seed).loss / without.loss);
      }
      if (lie.as_near) continue;
      const double allowed = lie.gross ? GetParam().of_gross : GetParam().of_others;
      EXPECT_LE(guarded.loss, allowed * without.loss) << lie.name << ", seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, OneLiar,
    testing::Values(LiarCase{"of_eight", {}, 1.05, 1.1}, LiarCase{"of_eight_in_blocks", {.block = 512}, 1.05, 1.1},
                    LiarCase{"of_eight_by_class", {.block = 512, .by_class = true}, 1.05, 1.1},
                    LiarCase{"of_sixteen", {.members = 16, .block = 256, .rounds = 60}, 1.05, 1.1},
                    LiarCase{"two_of_sixteen", {.members = 16, .block = 256, .rounds = 60, .liars = 2}, 1.05, 1.1},
                    LiarCase{"of_four", {.members = 4, .block = 512}, 1.25, 1.25, true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace starling::exchange_test
