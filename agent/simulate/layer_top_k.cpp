#include "agent/simulate/layer_top_k.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "agent/train/model_plan.h"
#include "compression/plan/merge_plan.h"
#include "kernels/check.h"
#include "kernels/top_k.h"

namespace starling {

std::vector<GradientLayer> gradient_layers(const ModelConfig& model) {
  if (model.kind == "quadratic") return {{0, model.dimension}};
  std::vector<GradientLayer> layers;
  for (const ParamSlot& slot : plan_model(model).slots) layers.push_back({slot.offset, slot.count});
  return layers;
}

LayerTopK::LayerTopK(std::vector<GradientLayer> layers, size_t elements, size_t workers, double density)
    : layers_(std::move(layers)), errors_(workers, std::vector<float>(elements)) {
  STARLING_CHECK(!layers_.empty() && workers >= 1 && density > 0 && density <= 1);
  for (const auto& [offset, count] : layers_) {
    STARLING_CHECK(count >= 1 && offset + count <= elements);
    const auto kept = static_cast<size_t>(std::ceil(density * static_cast<double>(count)));
    kept_.push_back(std::clamp<size_t>(kept, 1, count));
  }
}

std::vector<float> LayerTopK::reduce(const std::vector<std::vector<float>>& gradients) {
  STARLING_CHECK(gradients.size() == errors_.size());
  std::vector<double> sum(errors_[0].size());
  std::vector<uint32_t> indices(*std::max_element(kept_.begin(), kept_.end()));
  TopKScratch scratch;
  for (size_t worker = 0; worker < errors_.size(); ++worker) {
    std::vector<float>& error = errors_[worker];
    STARLING_CHECK(gradients[worker].size() == error.size());
    for (size_t i = 0; i < error.size(); ++i) error[i] += gradients[worker][i];
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      const auto [offset, count] = layers_[layer];
      const size_t found = top_k(error.data() + offset, count, kept_[layer], &scratch, indices.data()).value();
      for (size_t i = 0; i < found; ++i) sum[offset + indices[i]] += std::exchange(error[offset + indices[i]], 0.0f);
    }
  }
  for (double& value : sum) value /= static_cast<double>(errors_.size());
  return {sum.begin(), sum.end()};
}

double LayerTopK::bytes() const {
  return 8.0 * static_cast<double>(std::accumulate(kept_.begin(), kept_.end(), size_t{0}));
}

double layer_top_k_seconds(const std::vector<ReadyGradient>& gradients, const std::vector<double>& layers,
                           size_t agents, const SimLink& link) {
  const auto others = static_cast<double>(agents - 1);
  const double latency_s = agents > 1 ? link.latency_s : 0;
  const StepModel model =
      backward_model(gradients, layers, latency_s, [&](double bucket) { return link.transfer_s(others * bucket); });
  return step_end_s(model, plan_per_section(layers.size()));
}

}  // namespace starling
