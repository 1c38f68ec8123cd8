#include "agent/data/dataset.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>

#include "agent/data/file.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr size_t kLabelsShown = 20;

// Generated digits have one size; a model made for other images cannot learn from them.
void check_generated_fits(const SampleSpec& model) {
  if (model.input == std::vector<int64_t>{1, 28, 28} && model.classes >= 10) return;
  throw std::runtime_error("generated digits are [1, 28, 28] in 10 classes, but swarm.model.input is " +
                           print_shape(model.input) + " with " + std::to_string(model.classes) +
                           " classes; change the model, or name a folder with data in agent.data.path");
}

// The format follows from the files present. If there are none, load_idx reports what is missing.
Dataset load_folder(const std::string& folder, DataPart part, const SampleSpec& model) {
  const bool idx = has_idx(folder, part), cifar = has_cifar(folder, part), text = has_text(folder, part);
  if (idx + cifar + text > 1) {
    const std::string found = !text ? "both IDX and CIFAR-10 files" : "text and images";
    refuse_file(folder, "holds " + found, "put one data set into a folder");
  }
  if (text) return load_text(folder, part, model);
  return cifar ? load_cifar(folder, part, model) : load_idx(folder, part, model);
}

Dataset load_train(const DataConfig& config, const SampleSpec& model, uint64_t rng_seed) {
  if (config.path.empty()) {
    throw std::runtime_error("no training data is named; set agent.data.path (--data of an agent) to a folder with "
                             "IDX, CIFAR-10 or text files, or to `generated`");
  }
  if (config.path != "generated") return load_folder(config.path, DataPart::kTrain, model);
  check_generated_fits(model);
  return draw_digits(kGeneratedTrainCount, rng_seed, 0);
}

Dataset load_test(const DataConfig& config, const SampleSpec& model, uint64_t rng_seed) {
  const std::string& folder = config.test_path.empty() ? config.path : config.test_path;
  if (folder == "generated") {
    check_generated_fits(model);
    return draw_digits(kGeneratedTestCount, rng_seed, 1);
  }
  // Test data are optional: an agent without them trains but does not evaluate.
  if (config.test_path.empty() && !has_idx(folder, DataPart::kTest) && !has_cifar(folder, DataPart::kTest) &&
      !has_text(folder, DataPart::kTest)) {
    return Dataset{.shape = model.input};
  }
  return load_folder(folder, DataPart::kTest, model);
}

}  // namespace

std::string print_shape(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

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

DatasetPair load_data(const DataConfig& config, const SampleSpec& model, uint64_t rng_seed) {
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
  if (labels.size() > kLabelsShown) return text + ", " + std::to_string(labels.size()) + " labels";
  if (!labels.empty()) text += ", labels";
  for (const int label : labels) text += " " + std::to_string(label);
  return text;
}

}  // namespace starling
