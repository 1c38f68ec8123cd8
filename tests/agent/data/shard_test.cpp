#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "agent/data/dataset.h"
#include "gossip/rng.h"

namespace starling {
namespace {

std::vector<uint8_t> some_labels(size_t count, uint32_t classes) {
  Rng rng(11);
  std::vector<uint8_t> labels;
  for (size_t i = 0; i < count; ++i) labels.push_back(static_cast<uint8_t>(rng.below(classes)));
  return labels;
}

std::vector<std::vector<uint32_t>> all_shards(const std::vector<uint8_t>& labels, DataConfig config, uint64_t rng_seed,
                                              int64_t classes = 10) {
  std::vector<std::vector<uint32_t>> shards;
  for (config.shard = 0; config.shard < config.shard_count; ++config.shard) {
    shards.push_back(shard_indices(labels, classes, config, rng_seed));
  }
  return shards;
}

// Every sample in exactly one shard, each shard ascending.
void expect_division(const std::vector<std::vector<uint32_t>>& shards, size_t count) {
  std::vector<int> holders(count, 0);
  for (const auto& shard : shards) {
    EXPECT_TRUE(std::is_sorted(shard.begin(), shard.end()));
    for (const uint32_t i : shard) ++holders.at(i);
  }
  EXPECT_EQ(std::count(holders.begin(), holders.end(), 1), static_cast<ptrdiff_t>(count));
}

TEST(DatasetShard, AllGivesEverythingToEveryone) {
  const auto labels = some_labels(100, 10);
  for (const auto& shard : all_shards(labels, {.sharding = "all", .shard_count = 3}, 1)) EXPECT_EQ(shard.size(), 100u);
}

TEST(DatasetShard, IidDividesEvenlyAndMixed) {
  const auto labels = some_labels(1003, 10);
  const DataConfig config{.sharding = "iid", .shard_count = 4};
  const auto shards = all_shards(labels, config, 1);
  expect_division(shards, labels.size());
  for (const auto& shard : shards) {
    EXPECT_NEAR(static_cast<double>(shard.size()), 1003 / 4.0, 1);
    std::set<uint8_t> seen;
    for (const uint32_t i : shard) seen.insert(labels[i]);
    EXPECT_EQ(seen.size(), 10u);
  }
  EXPECT_EQ(shards, all_shards(labels, config, 1));
  EXPECT_NE(shards, all_shards(labels, config, 2));
}

TEST(DatasetShard, LabelsGivesEachClassToOneShard) {
  const auto labels = some_labels(1000, 10);
  const auto shards = all_shards(labels, {.sharding = "labels", .shard_count = 4}, 1);
  expect_division(shards, labels.size());
  std::vector<std::set<int>> classes(4);
  for (size_t s = 0; s < 4; ++s) {
    for (const uint32_t i : shards[s]) classes[s].insert(labels[i]);
  }
  EXPECT_EQ(classes, (std::vector<std::set<int>>{{0, 1, 2}, {3, 4}, {5, 6, 7}, {8, 9}}));
}

TEST(DatasetShard, MoreShardsThanClassesLeavesSomeEmpty) {
  const auto labels = some_labels(100, 2);
  const auto shards = all_shards(labels, {.sharding = "labels", .shard_count = 4}, 1, 2);
  expect_division(shards, labels.size());
  EXPECT_TRUE(shards[1].empty());
}

TEST(DatasetShard, DirichletDividesUnevenlyByAlpha) {
  const auto labels = some_labels(5000, 10);
  std::map<double, double> largest_share;  // by alpha: the mean, over classes, of the largest holder's share
  for (const double alpha : {0.001, 0.1, 1.0, 100.0}) {
    const DataConfig config{.sharding = "dirichlet", .shard_count = 5, .alpha = alpha};
    const auto shards = all_shards(labels, config, 1);
    expect_division(shards, labels.size());
    EXPECT_EQ(shards, all_shards(labels, config, 1));
    EXPECT_NE(shards, all_shards(labels, config, 2));
    for (int label = 0; label < 10; ++label) {
      std::vector<double> held;
      for (const auto& shard : shards) {
        held.push_back(static_cast<double>(
            std::count_if(shard.begin(), shard.end(), [&](uint32_t i) { return labels[i] == label; })));
      }
      const double total = static_cast<double>(std::count(labels.begin(), labels.end(), label));
      largest_share[alpha] += *std::max_element(held.begin(), held.end()) / total / 10;
    }
  }
  EXPECT_GT(largest_share[0.001], 0.98);
  EXPECT_GT(largest_share[0.1], largest_share[1.0]);
  EXPECT_LT(largest_share[100.0], 0.3);  // 1/5 and a little
}

// With one class and many draws the mean share is 1/n and its variance that of a Beta distribution.
TEST(DatasetShard, DirichletSharesHaveTheRightVariance) {
  const std::vector<uint8_t> labels(1000, 0);
  const double alpha = 0.5, n = 4;
  double sum = 0, sum_squares = 0;
  const int draws = 3000;
  for (int i = 0; i < draws; ++i) {
    const DataConfig config{.sharding = "dirichlet", .shard = 1, .shard_count = 4, .alpha = alpha};
    const double share = static_cast<double>(shard_indices(labels, 1, config, static_cast<uint64_t>(i)).size()) / 1000;
    sum += share;
    sum_squares += share * share;
  }
  const double mean = sum / draws, variance = sum_squares / draws - mean * mean;
  EXPECT_NEAR(mean, 1 / n, 0.02);
  EXPECT_NEAR(variance, (n - 1) / (n * n * (n * alpha + 1)), 0.005);
}

TEST(DatasetShard, TheLabelFilterKeepsOnlyThose) {
  const auto labels = some_labels(1000, 10);
  const auto shards = all_shards(labels, {.sharding = "iid", .shard_count = 2, .labels = {3, 7}}, 1);
  size_t kept = 0;
  for (const auto& shard : shards) {
    kept += shard.size();
    for (const uint32_t i : shard) EXPECT_TRUE(labels[i] == 3 || labels[i] == 7);
  }
  EXPECT_EQ(static_cast<ptrdiff_t>(kept),
            std::count(labels.begin(), labels.end(), 3) + std::count(labels.begin(), labels.end(), 7));
}

TEST(DatasetShard, NonsenseIsRefused) {
  const auto labels = some_labels(10, 10);
  EXPECT_THROW(shard_indices(labels, 10, {.sharding = "idd"}, 1), std::runtime_error);
  for (const double alpha : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(shard_indices(labels, 10, {.sharding = "dirichlet", .alpha = alpha}, 1), std::runtime_error);
  }
}

}  // namespace
}  // namespace starling
