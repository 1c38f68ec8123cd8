// Labelled images: read from IDX files (the MNIST family) or CIFAR-10's binary files, or drawn by the program
// itself; and text, as runs of bytes whose label is the byte that follows. Divided among agents.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/data/options.h"

namespace starling {

struct Dataset {
  std::vector<int64_t> shape;     // channels, height, width of one sample
  std::vector<uint8_t> pixels;    // sample after sample
  std::vector<uint8_t> labels;

  size_t count() const { return labels.size(); }
  size_t sample_elements() const;

  // The chosen samples, in the order of `indices`. REQUIRES: each index < count().
  Dataset select(const std::vector<uint32_t>& indices) const;
};

// For people: "[1, 28, 28]".
std::string print_shape(const std::vector<int64_t>& shape);

struct DatasetPair {
  Dataset train;                  // this agent's shard
  Dataset test;  // never divided; empty when the folder holds no test files and test_path is empty
};

inline constexpr uint32_t kGeneratedTrainCount = 4000;
inline constexpr uint32_t kGeneratedTestCount = 1000;

// Loads what `config` names and checks it against the model. The same rng seed divides the same data alike on every
// machine. Throws std::runtime_error: a file missing, damaged or at odds with the model; an empty shard.
DatasetPair load_data(const DataConfig& config, const SampleSpec& model, uint64_t rng_seed);

enum class DataPart { kTrain, kTest };

// Reads FOLDER/STEM-images-idx3-ubyte and FOLDER/STEM-labels-idx1-ubyte; STEM is train or t10k. has_idx: whether
// either is there. Throws std::runtime_error naming the path, what is wrong and what to do.
bool has_idx(const std::string& folder, DataPart part);
Dataset load_idx(const std::string& folder, DataPart part, const SampleSpec& model);

// Reads those of FOLDER/data_batch_1.bin to _5.bin that are there, in this order, or FOLDER/test_batch.bin.
// has_cifar: whether there is any. Throws as load_idx.
bool has_cifar(const std::string& folder, DataPart part);
Dataset load_cifar(const std::string& folder, DataPart part, const SampleSpec& model);

// Reads FOLDER/train.txt or FOLDER/test.txt, cut into runs as long as model.input says, [1, 1, LENGTH], one behind the
// other. Throws as load_idx: also a byte that is no class of the model.
bool has_text(const std::string& folder, DataPart part);
Dataset load_text(const std::string& folder, DataPart part, const SampleSpec& model);

// Handwriting-like digits, 28x28, equally many of each. The same count, rng seed and stream give the same bytes on
// every machine.
Dataset draw_digits(uint32_t count, uint64_t rng_seed, uint64_t stream);

// The samples of the shard that `config` names, ascending. Shards of one data set never share a sample (with sharding
// all, every shard is the whole set). REQUIRES: config.shard < config.shard_count. Throws
// std::runtime_error: unknown sharding, alpha out of range.
std::vector<uint32_t> shard_indices(const std::vector<uint8_t>& labels, int64_t classes,
                                    const DataConfig& config, uint64_t rng_seed);

// "1213 samples, labels 0 1 2"; of many labels their number alone
std::string summarize(const Dataset& data);

}  // namespace starling
