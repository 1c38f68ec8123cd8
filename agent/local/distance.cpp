#include "agent/local/distance.h"

#include <cmath>

#include "agent/state/checkpoint.h"

namespace starling {

std::optional<double> rms_distance(const std::vector<std::span<const float>>& models) {
  if (models.size() < 2 || models.front().empty()) return std::nullopt;
  const size_t size = models.front().size();
  for (const auto& model : models) {
    if (model.size() != size) return std::nullopt;
  }
  double squares = 0;
  const auto count = static_cast<double>(models.size());
  for (size_t i = 0; i < size; ++i) {
    double mean = 0;
    for (const auto& model : models) mean += model[i] / count;
    for (const auto& model : models) squares += (model[i] - mean) * (model[i] - mean);
  }
  return std::sqrt(squares / (count * static_cast<double>(size)));
}

std::optional<double> params_distance(const std::vector<std::string>& state_dirs) {
  std::vector<LoadedCheckpoint> loaded;
  for (const std::string& dir : state_dirs) {
    std::optional<LoadedCheckpoint> newest = load_newest_checkpoint(dir + "/checkpoints", std::nullopt, {});
    if (!newest) return std::nullopt;
    loaded.push_back(std::move(*newest));
  }
  std::vector<std::span<const float>> models;
  for (const LoadedCheckpoint& checkpoint : loaded) models.push_back(checkpoint.content.params);
  return rms_distance(models);
}

}  // namespace starling
