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

// bytes: batch x channels x height x width. Returns one row of class scores per prediction: one of each sample, or, of
// an lstm, one of each byte.
// REQUIRES: tensors match plan_model(model); for an lstm, each byte is below model.classes.
at::Tensor forward(const ModelConfig& model, const std::vector<at::Tensor>& tensors, const at::Tensor& bytes);

// The class that each row of forward() should name. labels: one of each sample; for an lstm the byte behind it.
at::Tensor targets(const ModelConfig& model, const at::Tensor& bytes, const at::Tensor& labels);

}  // namespace starling
