// How much a neighbor that is far away counts, and that honest ones count whole.
#include "gossip/neighborhood/neighbor_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "tests/gossip/exchange/guarded_training.h"
#include "tests/gossip/neighborhood/neighbor_rounds.h"

namespace starling::exchange_test {
namespace {

using Scales = std::vector<double>;

Scales judge(NeighborGuard& guard, const std::vector<double>& distances, double drift = 0) {
  std::vector<NeighborGuard::Near> near;
  for (double distance : distances) near.push_back({test_peer(static_cast<uint8_t>(near.size() + 1)), distance, 1});
  return guard.scales(near, drift);
}

TEST(NeighborGuard, ComparesTheNeighborsOfARound) {
  NeighborGuard guard;
  EXPECT_EQ(judge(guard, {0, 5}), (Scales{1, 1})) << "nothing to compare with";
  EXPECT_EQ(judge(guard, {1, 30}), (Scales{1, 1}));
  EXPECT_EQ(judge(guard, {1, 60}), (Scales{1, 0.5}));
  EXPECT_EQ(judge(guard, {1, 301}), (Scales{1, 0}));
  for (int i = 0; i < 64; ++i) EXPECT_EQ(judge(guard, {1, 1}), (Scales{1, 1}));
  EXPECT_EQ(judge(guard, {1, 3}), (Scales{1, 1}));
  EXPECT_EQ(judge(guard, {1, 6}), (Scales{1, 0.5}));
  EXPECT_EQ(judge(guard, {1, 31}), (Scales{1, 0}));
  EXPECT_EQ(judge(guard, {1e9, 1e9}), (Scales{1, 1})) << "all moved";
  EXPECT_EQ(guard.scales({{test_peer(1), 1, 1}, {test_peer(2), 24, 8}}, 0), (Scales{1, 1})) << "8 times the steps";
  EXPECT_EQ(judge(guard, {}), Scales{});
}

TEST(NeighborGuard, KnowsWhatWasUsual) {
  NeighborGuard guard;
  for (int i = 0; i < 8; ++i) EXPECT_EQ(judge(guard, {1, 1, 1}), (Scales{1, 1, 1}));
  EXPECT_EQ(judge(guard, {0, 3}), (Scales{1, 1}));
  EXPECT_EQ(judge(guard, {0, 6}), (Scales{1, 0.5}));
  EXPECT_EQ(judge(guard, {1, 1, 1e6}), (Scales{1, 1, 0}));
}

TEST(NeighborGuard, NeverCutsOffANeighborThatComesAlone) {
  NeighborGuard guard;
  for (int i = 0; i < 64; ++i) EXPECT_EQ(judge(guard, {1}), (Scales{1}));
  int rounds = 0;
  for (double scale = 0; scale < 1;) {
    scale = judge(guard, {300})[0];
    EXPECT_GT(scale, 0);
    ASSERT_LT(++rounds, 64) << "it stays what it was: the swarm moved apart";
  }
  EXPECT_GT(rounds, 8);
}

// A neighbor that returns what it got, so that nothing else counts as usual any more, and an honest one.
TEST(NeighborGuard, AnEchoDoesNotCutOffTheHonest) {
  NeighborGuard guard;
  for (int i = 0; i < 64; ++i) (void)judge(guard, {1e-6, 1e-6}, 0.5);
  EXPECT_EQ(judge(guard, {1e-6, 1.5}, 0.5), (Scales{1, 1}));
  EXPECT_EQ(judge(guard, {1e-6, 3}, 0.5), (Scales{1, 0.5}));
  EXPECT_EQ(judge(guard, {1e-6, 3}, 0), (Scales{1, 0})) << "were it not for the own steps";
}

// It is clipped, and draws this agent from the honest one all the same. So the honest one is farther than it was.
TEST(NeighborGuard, ALiarThatMakesTheHonestFarIsNotNearByThat) {
  NeighborGuard guard;
  for (int i = 0; i < 64; ++i) (void)judge(guard, {1, 1});
  for (int i = 0; i < 31; ++i) EXPECT_EQ(judge(guard, {2, 6})[1], 1);
  EXPECT_EQ(judge(guard, {1, 5})[1], 3.0 / 5);
  for (int i = 0; i < 64; ++i) (void)judge(guard, {1, 3});
  EXPECT_EQ(judge(guard, {1, 6})[1], 1) << "what the past allows becomes usual";
}

TEST(NeighborGuard, AnEchoDoesNotMakeTheHonestFar) {
  NeighborGuard guard;
  for (int i = 0; i < 64; ++i) (void)judge(guard, {1, 1});
  for (int i = 0; i < 200; ++i) ASSERT_EQ(judge(guard, {1e-6, 1}, 0.01), (Scales{1, 1})) << i;
}

TEST(NeighborGuard, WhoComesNoNearerIsCutOffForAWhile) {
  NeighborGuard guard;
  for (int i = 0; i < 64; ++i) (void)judge(guard, {1, 1});
  for (unsigned i = 0; i <= NeighborGuard::kRounds; ++i) EXPECT_EQ(judge(guard, {1, 6}), (Scales{1, 0.5})) << i;
  for (unsigned i = 0; i < 4 * NeighborGuard::kRounds; ++i) EXPECT_EQ(judge(guard, {1, 6}), (Scales{1, 0})) << i;
  double distance = 5;
  for (int i = 0; i < 40; ++i, distance *= 0.99) EXPECT_DOUBLE_EQ(judge(guard, {1, distance})[1], 3 / distance) << i;
}

struct HonestCase {
  const char* name;
  Training<Neighborhood> training;
};

class HonestNeighbors : public testing::TestWithParam<HonestCase> {};

// The same bytes as without a guard.
TEST_P(HonestNeighbors, CountWhole) {
  for (uint64_t seed = first_seed(); seed < first_seed() + seed_count(2); ++seed) {
    Training<Neighborhood> training = GetParam().training;
    training.rounds = 60;
    const Trained guarded = train(training, seed);
    training.guarded = false;
    EXPECT_EQ(guarded.far, 0u) << seed;
    EXPECT_EQ(guarded.digest, train(training, seed).digest) << seed;
  }
}

double dip(int round) { return round >= 20 && round < 40 ? 1e-5 : 1; }

INSTANTIATE_TEST_SUITE_P(All, HonestNeighbors,
                         testing::Values(HonestCase{"alike", {.noise = 10}}, HonestCase{"apart", {}},
                                         HonestCase{"by_class", {.block = 512, .by_class = true}},
                                         HonestCase{"two", {.members = 2, .by_class = true}},
                                         HonestCase{"three", {.members = 3, .by_class = true}},
                                         HonestCase{"one_fast", {.by_class = true, .fast = 1}},
                                         HonestCase{"rate_dips", {.by_class = true, .rate_factor = dip}}),
                         [](const auto& info) { return info.param.name; });

// Who was thrown 30 of a round's steps away, and two halves so far apart, are one swarm again soon.
TEST(Neighbors, ReturnWithinAHundredRounds) {
  for (const uint8_t thrown : {1, 4}) {
    constexpr int kMovedAt = 40;
    Training<Neighborhood> training{.rounds = kMovedAt + 100};
    training.before_round = [thrown](int round, RoundSwarm<Neighborhood>& swarm) {
      if (round == kMovedAt) throw_away(swarm, 1, thrown);
    };
    const Trained trained = train(training);
    const double usual = trained.spreads[kMovedAt - 1];
    int back = 0;
    while (back < 100 && trained.spreads[static_cast<size_t>(kMovedAt + back)] > 2 * usual) ++back;
    std::printf("%d thrown: spread below twice the usual after %d rounds, clipped or cut off %llu\n", thrown, back,
                static_cast<unsigned long long>(trained.far));
    EXPECT_LT(back, 100);
    EXPECT_LT(trained.spreads.back(), 2 * usual);
  }
}

TEST(Neighbors, OfWhoIsCutOffNothingIsMixed) {
  Training<Neighborhood> training{.rounds = 60};
  training.lie = [](Flight& flight, RoundBlock&) { fill(flight, 1e6f); };
  int looked = 0;
  training.before_round = [&looked](int round, RoundSwarm<Neighborhood>& swarm) {
    if (round != 40) return;
    const PeerId liar = test_peer(8);
    const std::vector<ExchangeReport>& reports = swarm.at(7).reports;
    const auto last = std::find_if(reports.rbegin(), reports.rend(), [&](const auto& one) { return one.peer == liar; });
    ASSERT_NE(last, reports.rend());
    EXPECT_EQ(last->outcome, ExchangeOutcome::kFailed);
    EXPECT_EQ(last->blocks_mixed, 0u);
    EXPECT_EQ(last->left_out, std::vector<PeerId>{liar});
    ++looked;
  };
  (void)train(training);
  EXPECT_EQ(looked, 1);
}

TEST(Neighbors, WhoIsFarCountsLessBeforeItIsCutOff) {
  Training<Neighborhood> training{.rounds = kLiesFrom + static_cast<int>(NeighborGuard::kRounds)};
  training.lie = [](Flight& flight, RoundBlock& block) { noise(flight, block, 10); };
  const double guarded = train(training).loss;
  training.guarded = false;
  const double without = train(training).loss;
  std::printf("guarded %.3f, without %.3f\n", guarded, without);
  EXPECT_LT(guarded, 0.8 * without);
}

// Its record says that it takes as many steps as the others; its blocks, that it takes 8 times as many.
TEST(Neighbors, TheMassInABlockAllowsNothing) {
  Training<Neighborhood> training{.rounds = 60};
  training.lie = [](Flight& flight, RoundBlock& block) {
    noise(flight, block, 10);
    block.mass = 0.125;
  };
  const Trained both = train(training);
  training.lie = [](Flight& flight, RoundBlock& block) { noise(flight, block, 10); };
  EXPECT_EQ(both.digest, train(training).digest);
}

struct LiarCase {
  const char* name;
  Training<Neighborhood> training;
  bool unguarded_too = false;
};

class OneLyingNeighbor : public testing::TestWithParam<LiarCase> {};

TEST_P(OneLyingNeighbor, CostsTheOthersLittle) {
  for (uint64_t seed = first_seed(); seed < first_seed() + seed_count(1); ++seed) {
    Training<Neighborhood> training = GetParam().training;
    training.silent = true;
    const Trained without = train(training, seed);
    training.silent = false;
    for (const Lie& lie : lies()) {
      if (lie.as_owner) continue;
      training.lie = lie.tell;
      training.guarded = true;
      const Trained guarded = train(training, seed);
      std::printf("%-28s loss x %.3f, clipped or cut off %llu\n", lie.name, guarded.loss / without.loss,
                  static_cast<unsigned long long>(guarded.far));
      if (GetParam().unguarded_too && seed == first_seed()) {
        training.guarded = false;
        std::printf("%-28s loss x %.3g without a guard\n", "", train(training, seed).loss / without.loss);
      }
      if (lie.as_near) continue;
      EXPECT_LE(guarded.loss, (lie.gross ? 1.05 : 1.1) * without.loss) << lie.name << ", seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, OneLyingNeighbor,
                         testing::Values(LiarCase{"on_a_ring", {.block = 512}, true},
                                         LiarCase{"on_a_ring_by_class", {.block = 512, .by_class = true}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace starling::exchange_test
