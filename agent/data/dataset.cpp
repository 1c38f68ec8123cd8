#include "agent/data/dataset.h"

#include <unistd.h>

#include <cstring>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "agent/data/file.h"
#include "agent/data/source.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr size_t kLabelsShown = 20;

// Generated digits have one size; a model made for other images cannot learn from them.
void check_generated_fits(const SampleSpec& model) {
  if (model.input == std::vector<int64_t>{1, 28, 28} && model.classes >= 10) return;
  throw std::runtime_error("generated digits are [1, 28, 28] in 10 classes, but swarm.model.input is " +
                           print_shape(model.input) + " with " + std::to_string(model.classes) +
                           " classes; change the model, or name data in agent.data.path");
}

// Files may claim more than there is memory for.
void refuse_beyond_memory(const SampleSource& source, uint64_t bytes) {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0 || bytes <= static_cast<uint64_t>(pages) * static_cast<uint64_t>(page)) return;
  refuse_file(source.place, std::to_string(bytes >> 20) + " MiB of pixels, more than the memory of this machine",
              "give each agent a part: --sharding iid --shard 1/4");
}

Dataset read_samples(const SampleSource& source, const std::vector<uint32_t>& indices) {
  const size_t elements = source.sample_elements();
  refuse_beyond_memory(source, uint64_t{elements} * indices.size());
  Dataset data{.shape = source.shape, .classes = source.classes};
  data.pixels.resize(elements * indices.size());
  data.labels.reserve(indices.size());
  for (const uint32_t index : indices) data.labels.push_back(source.labels[index]);
  source.read(indices, [&](size_t i, const uint8_t* pixels) {
    std::memcpy(data.pixels.data() + i * elements, pixels, elements);
  });
  return data;
}

std::vector<uint32_t> own_indices(const std::vector<uint8_t>& labels, const DataConfig& config, const SampleSpec& model,
                                  uint64_t rng_seed) {
  std::vector<uint32_t> mine = shard_indices(labels, model.classes, config, rng_seed);
  if (!mine.empty()) return mine;
  throw std::runtime_error("shard " + std::to_string(config.shard + 1) + "/" + std::to_string(config.shard_count) +
                           " (sharding " + config.sharding + ") of " + config.path +
                           " holds no samples; use fewer shards, other labels, or a larger alpha");
}

HeldOut own_samples(const std::vector<uint8_t>& labels, const DataConfig& config, const SampleSpec& model,
                    uint64_t rng_seed) {
  HeldOut samples = hold_out(own_indices(labels, config, model, rng_seed), config.hold_out, rng_seed);
  if (config.hold_out == 0 || !samples.held.empty()) return samples;
  refuse_file(
      config.path,
      fmt::format("agent.data.hold_out: {} of this agent's {} samples is none", config.hold_out, samples.kept.size()),
      "raise it, up to 0.5, or use more data");
}

// Without hold_out, `test` is left empty.
DatasetPair load_own(const DataConfig& config, const SampleSpec& model, uint64_t rng_seed) {
  refuse_unnamed_data(config);
  if (config.path == "generated") {
    check_generated_fits(model);
    const Dataset all = draw_digits(kGeneratedTrainCount, rng_seed, 0);
    const HeldOut samples = own_samples(all.labels, config, model, rng_seed);
    return {all.select(samples.kept), all.select(samples.held)};
  }
  const FoundData found = find_data(config.path);
  if (!found.train) {
    refuse_file(config.path, "holds " + found.format + " to evaluate on, and none to train on",
                "add the training files, or name it with agent.data.test_path (--test-data)");
  }
  const SampleSource source = open_part(found.train, &model);
  const HeldOut samples = own_samples(source.labels, config, model, rng_seed);
  return {read_samples(source, samples.kept), read_samples(source, samples.held)};
}

Dataset load_test(const DataConfig& config, const SampleSpec& model, uint64_t rng_seed) {
  const std::string& path = config.test_path.empty() ? config.path : config.test_path;
  if (path == "generated") {
    check_generated_fits(model);
    return draw_digits(kGeneratedTestCount, rng_seed, 1);
  }
  const FoundData found = find_data(path);
  OpenPart open = found.test;
  if (!open && !config.test_path.empty() && !found.is_divided) open = found.train;
  if (!open && !config.test_path.empty()) {
    refuse_file(path, "holds " + found.format + " to train on, and none to evaluate on", "add the test files");
  }
  if (!open) return Dataset{.shape = model.input};  // an agent without test data trains, and does not evaluate
  const SampleSource source = open_part(open, &model);
  return read_samples(source, all_indices(source));
}

}  // namespace

size_t Dataset::sample_elements() const {
  size_t elements = 1;
  for (const int64_t size : shape) elements *= static_cast<size_t>(size);
  return elements;
}

Dataset Dataset::select(const std::vector<uint32_t>& indices) const {
  const size_t elements = sample_elements();
  Dataset chosen{.shape = shape, .classes = classes};
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
  DatasetPair data = load_own(config, model, rng_seed);
  if (config.hold_out == 0) data.test = load_test(config, model, rng_seed);
  return data;
}

Dataset load_judged_data(const std::string& path, const SampleSpec& model, uint64_t rng_seed, bool* is_training) {
  *is_training = false;
  if (path == "generated") return load_test({.path = path}, model, rng_seed);
  const FoundData found = find_data(path);
  *is_training = !found.test;
  const SampleSource source = open_part(found.test ? found.test : found.train, &model);
  return read_samples(source, all_indices(source));
}

void refuse_unnamed_data(const DataConfig& config) {
  if (!config.path.empty()) return;
  throw std::runtime_error(
      "no training data is named; set agent.data.path (--data of an agent) to a folder or file with data, or to "
      "`generated`");
}

void refuse_absent_data(const DataConfig& config) {
  for (const std::string& path : {config.path, config.test_path}) {
    if (!path.empty() && path != "generated") (void)find_data(path);
  }
}

std::vector<uint64_t> count_labels(const Dataset& data) {
  std::vector<uint64_t> counts;
  for (const uint8_t label : data.labels) {
    if (label >= counts.size()) counts.resize(size_t{label} + 1);
    ++counts[label];
  }
  return counts;
}

std::string summarize(const Dataset& data) {
  const std::set<int> labels(data.labels.begin(), data.labels.end());
  std::string text = std::to_string(data.count()) + " samples";
  if (labels.size() > kLabelsShown) return text + ", " + std::to_string(labels.size()) + " labels";
  if (!labels.empty()) text += ", labels";
  for (const int label : labels) {
    text += " " + std::to_string(label);
    if (!data.classes.empty()) text += " " + data.classes.at(static_cast<size_t>(label)) + ",";
  }
  if (text.ends_with(',')) text.pop_back();
  return text;
}

}  // namespace starling
