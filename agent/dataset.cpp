#include "agent/dataset.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "kernels/check.h"

namespace starling {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

// Generated digits have one size; a model made for other images cannot learn from them.
void check_generated_fits(const ModelConfig& model) {
  if (model.input == std::vector<int64_t>{1, 28, 28} && model.classes >= 10) return;
  throw std::runtime_error("generated digits are 1x28x28 in 10 classes, but swarm.model.input is " +
                           shape_text(model.input) + " with " + std::to_string(model.classes) +
                           " classes; change the model, or name a folder with IDX files in agent.data.path");
}

Dataset load_train(const DataConfig& config, const ModelConfig& model, uint64_t rng_seed) {
  if (config.path.empty()) {
    throw std::runtime_error("no training data is named; set agent.data.path to a folder with IDX files, "
                             "or to `generated`");
  }
  if (config.path != "generated") return load_idx(config.path, "train", model);
  check_generated_fits(model);
  return draw_digits(kGeneratedTrainCount, rng_seed, 0);
}

Dataset load_test(const DataConfig& config, const ModelConfig& model, uint64_t rng_seed) {
  const std::string& folder = config.test_path.empty() ? config.path : config.test_path;
  if (folder == "generated") {
    check_generated_fits(model);
    return draw_digits(kGeneratedTestCount, rng_seed, 1);
  }
  const std::filesystem::path dir(folder);
  // An agent need not own test data: then it trains and leaves the measuring to others.
  if (config.test_path.empty() && !std::filesystem::exists(dir / "t10k-images-idx3-ubyte") &&
      !std::filesystem::exists(dir / "t10k-labels-idx1-ubyte")) {
    return Dataset{.shape = model.input};
  }
  return load_idx(folder, "t10k", model);
}

}  // namespace

size_t Dataset::sample_elements() const {
  size_t elements = 1;
  for (const int64_t size : shape) elements *= static_cast<size_t>(size);
  return elements;
}

Dataset Dataset::select(const std::vector<uint32_t>& indices) const {
  const size_t elements = sample_elements();
  Dataset chosen{.shape = shape};
  chosen.pixels.resize(indices.size() * elements);
  chosen.labels.reserve(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    STARLING_CHECK(indices[i] < count());
    std::memcpy(chosen.pixels.data() + i * elements, pixels.data() + indices[i] * elements, elements);
    chosen.labels.push_back(labels[indices[i]]);
  }
  return chosen;
}

DatasetPair load_data(const DataConfig& config, const ModelConfig& model, uint64_t rng_seed) {
  const Dataset all = load_train(config, model, rng_seed);
  const std::vector<uint32_t> mine = shard_indices(all.labels, model.classes, config, rng_seed);
  if (mine.empty()) {
    throw std::runtime_error("shard " + std::to_string(config.shard + 1) + "/" +
                             std::to_string(config.shard_count) + " (sharding " + config.sharding + ") of " +
                             config.path +
                             " holds no samples; use fewer shards, other labels, or a larger alpha");
  }
  return {mine.size() == all.count() ? all : all.select(mine), load_test(config, model, rng_seed)};
}

std::string summarize(const Dataset& data) {
  const std::set<int> labels(data.labels.begin(), data.labels.end());
  std::string text = std::to_string(data.count()) + " samples";
  if (!labels.empty()) text += ", labels";
  for (const int label : labels) text += " " + std::to_string(label);
  return text;
}

}  // namespace starling
