// Which samples an agent trains and judges on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace starling {

// What a model takes; the samples of a data set must fit it.
struct SampleSpec {
  std::vector<int64_t> input = {1, 28, 28};  // channels, height, width of one sample
  int64_t classes = 10;
};

inline constexpr double kHoldOutMax = 0.5;

struct DataConfig {
  std::string path;              // folder or file with data, or "generated"; quadratic needs none
  std::string test_path;         // the same, for evaluation; empty: the test files in `path`
  std::string sharding = "all";  // all | iid | labels | dirichlet: how `path` is divided by shard
  uint32_t shard = 0;            // "2/4" = shard 1 of 4, counted from 0 here
  uint32_t shard_count = 1;
  double alpha = 0.5;           // dirichlet
  std::vector<int64_t> labels;  // keep only these labels; empty = all (sharding all or iid)
  double hold_out = 0;          // this part of the agent's samples is its test data; at most kHoldOutMax
};

}  // namespace starling
