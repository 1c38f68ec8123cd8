#include "agent/train/torch_model.h"

#include <ATen/ATen.h>

#include "kernels/check.h"

namespace starling {

std::vector<at::Tensor> slot_views(const ModelPlan& plan, const at::Tensor& flat) {
  std::vector<at::Tensor> views;
  for (const ParamSlot& slot : plan.slots) {
    const at::Tensor run =
        flat.narrow(0, static_cast<int64_t>(slot.offset), static_cast<int64_t>(slot.count));
    views.push_back(run.view(slot.shape).variable_data());
  }
  return views;
}

at::Tensor forward(const ModelConfig& model, const std::vector<at::Tensor>& tensors,
                   const at::Tensor& images) {
  if (model.kind == "cnn") {
    STARLING_CHECK(tensors.size() == 6);
    at::Tensor x = at::conv2d(images, tensors[0], tensors[1]);
    x = at::relu(at::max_pool2d(x, 2));  // the pool first: relu then has a quarter of the work
    x = at::conv2d(x, tensors[2], tensors[3]);
    x = at::relu(at::max_pool2d(x, 2));
    return at::linear(x.flatten(1), tensors[4], tensors[5]);
  }
  at::Tensor x = images.flatten(1);
  for (size_t i = 0; i + 1 < tensors.size(); i += 2) {
    x = at::linear(x, tensors[i], tensors[i + 1]);
    if (i + 2 < tensors.size()) x = at::relu(x);
  }
  return x;
}

}  // namespace starling
