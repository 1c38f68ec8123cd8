// The built-in networks as LibTorch operations over a plan's tensors.
#pragma once

#include <vector>

#include "agent/train/model_plan.h"

namespace at {
class Tensor;
}

namespace starling {

// Views into `flat`, one per slot of the plan, on its device. Each counts its own versions: to change one in place, or
// `flat`, is no change of the others to autograd.
std::vector<at::Tensor> slot_views(const ModelPlan& plan, const at::Tensor& flat);

// images: float, batch x channels x height x width. Returns one row of class scores per sample.
// REQUIRES: tensors match plan_model(model).
at::Tensor forward(const ModelConfig& model, const std::vector<at::Tensor>& tensors,
                   const at::Tensor& images);

}  // namespace starling
