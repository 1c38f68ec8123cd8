// The samples that an agent trains and judges on: labelled images, read from files or drawn by the program itself; and
// text, as runs of bytes with the byte that follows as label. Divided among agents.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/data/options.h"

namespace starling {

struct Dataset {
  std::vector<int64_t> shape;   // channels, height, width of one sample
  std::vector<uint8_t> pixels;  // sample after sample
  std::vector<uint8_t> labels;
  std::vector<std::string> classes;  // by label, where the data name them; else empty

  size_t count() const { return labels.size(); }
  size_t sample_elements() const;

  // The chosen samples, in the order of `indices`. REQUIRES: each index < count().
  Dataset select(const std::vector<uint32_t>& indices) const;
};

struct DatasetPair {
  Dataset train;  // this agent's shard, without what it holds out
  // What it holds out; else never divided, and empty when the folder holds no test files and test_path is empty.
  Dataset test;
};

inline constexpr uint32_t kGeneratedTrainCount = 4000;
inline constexpr uint32_t kGeneratedTestCount = 1000;

// Loads what `config` names and checks it against the model. Of the training data only the pixels of this agent's shard
// are read into memory, once. The same rng seed divides the same data alike on every machine.
// Throws std::runtime_error: a file missing, damaged or at odds with the model; an empty shard.
DatasetPair load_data(const DataConfig& config, const SampleSpec& model, uint64_t rng_seed);

// Labelled data to judge a model on: the test files at `path`, or all files where nothing says train or test, or
// `generated`. Without test files `is_training` is set, as agents may have trained on these. Throws as load_data().
Dataset load_judged_data(const std::string& path, const SampleSpec& model, uint64_t rng_seed, bool* is_training);

// Throws std::runtime_error: no path is named.
void refuse_unnamed_data(const DataConfig& config);

// What can be said of the paths before the model is known: throws std::runtime_error where one that is named is
// missing, or holds no data that load_data reads. No name: nothing is said.
void refuse_absent_data(const DataConfig& config);

// Handwriting-like digits, 28x28, equally many of each. The same count, rng seed and stream give the same bytes on
// every machine.
Dataset draw_digits(uint32_t count, uint64_t rng_seed, uint64_t stream);

// The samples of the shard that `config` names, ascending. Shards of one data set never share a sample (with sharding
// all, every shard is the whole set). REQUIRES: config.shard < config.shard_count. Throws
// std::runtime_error: unknown sharding, alpha out of range.
std::vector<uint32_t> shard_indices(const std::vector<uint8_t>& labels, int64_t classes, const DataConfig& config,
                                    uint64_t rng_seed);

// Which samples of a shard are held out: a fixed draw of this part of them, rounded down. Both ascend.
struct HeldOut { std::vector<uint32_t> kept, held; };
HeldOut hold_out(const std::vector<uint32_t>& shard, double part, uint64_t rng_seed);

std::vector<uint64_t> count_labels(const Dataset& data);  // samples by label, up to the largest label

// "1213 samples, labels 0 1 2", or "labels 0 cat, 1 dog"; of many labels their number alone
std::string summarize(const Dataset& data);

}  // namespace starling
