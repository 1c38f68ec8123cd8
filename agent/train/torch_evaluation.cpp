#include "agent/train/torch_evaluation.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "agent/train/model_plan.h"
#include "agent/train/torch_device.h"
#include "agent/train/torch_model.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr int64_t kEvaluationBatch = 500;

// hits: whether each prediction names the class that `wanted` does; losses: of each.
void count_by_class(const at::Tensor& wanted, const at::Tensor& hits, const at::Tensor& losses,
                    std::vector<ClassScore>& classes) {
  const auto count = static_cast<int64_t>(classes.size());
  const auto of_classes = [&](const at::Tensor& weights) { return at::bincount(wanted, weights, count).cpu(); };
  const at::Tensor samples = of_classes(at::ones_like(losses, at::kDouble));
  const at::Tensor correct = of_classes(hits.to(at::kDouble)), loss = of_classes(losses.to(at::kDouble));
  for (size_t i = 0; i < classes.size(); ++i) {
    classes[i].samples += static_cast<uint64_t>(samples.const_data_ptr<double>()[i]);
    classes[i].correct += static_cast<uint64_t>(correct.const_data_ptr<double>()[i]);
    classes[i].loss_sum += loss.const_data_ptr<double>()[i];
  }
}

}  // namespace

Evaluation evaluate_batches(const ModelConfig& model, const std::vector<at::Tensor>& tensors, const at::Tensor& images,
                            const at::Tensor& labels, const std::atomic<bool>& leaving,
                            std::vector<ClassScore>* by_class) {
  const at::NoGradGuard no_grad;
  Evaluation result;
  const int64_t samples = labels.size(0);
  double correct = 0, loss_sum = 0, predictions = 0;
  for (int64_t first = 0; first < samples && !leaving; first += kEvaluationBatch) {
    const int64_t count = std::min(kEvaluationBatch, samples - first);
    const at::Tensor batch = images.narrow(0, first, count);
    const at::Tensor wanted = targets(model, batch, labels.narrow(0, first, count));
    const at::Tensor scores = forward(model, tensors, batch);
    const at::Tensor hits = scores.argmax(1).eq(wanted);
    loss_sum += at::cross_entropy_loss(scores, wanted, {}, at::Reduction::Sum).item<float>();
    correct += static_cast<double>(hits.sum().item<int64_t>());
    predictions += static_cast<double>(wanted.numel());
    result.samples += static_cast<uint64_t>(count);
    if (by_class == nullptr) continue;
    count_by_class(wanted, hits, at::cross_entropy_loss(scores, wanted, {}, at::Reduction::None), *by_class);
  }
  if (result.samples == 0) return result;
  result.accuracy = correct / predictions;
  result.loss = loss_sum / predictions;
  return result;
}

ModelScore evaluate_model(const ModelConfig& model, std::span<const float> params, const Dataset& data,
                          const std::string& device) {
  const ModelPlan plan = plan_model(model);
  STARLING_CHECK(params.size() == plan.param_count && data.shape == model.input);
  const TorchDevice place(device, 0);
  try {
    place.enter();
    const auto on_device = [&](const void* values, at::IntArrayRef shape, at::ScalarType type) {
      return at::from_blob(const_cast<void*>(values), shape, type).to(place.is_cuda() ? at::kCUDA : at::kCPU);
    };
    const auto count = static_cast<int64_t>(data.count());
    std::vector<int64_t> shape = model.input;
    shape.insert(shape.begin(), count);
    const at::Tensor flat = on_device(params.data(), {static_cast<int64_t>(params.size())}, at::kFloat);
    ModelScore score{.classes = std::vector<ClassScore>(static_cast<size_t>(model.classes))};
    score.all =
        evaluate_batches(model, slot_views(plan, flat), on_device(data.pixels.data(), shape, at::kByte),
                         on_device(data.labels.data(), {count}, at::kByte).to(at::kLong), false, &score.classes);
    return score;
  } catch (...) {
    rethrow_torch_failure();
  }
}

}  // namespace starling
