// How good a network is on labelled samples: in all, and by class.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "agent/data/dataset.h"
#include "agent/train/options.h"
#include "agent/train/trainer.h"

namespace at {
class Tensor;
}

namespace starling {

struct ClassScore {
  uint64_t samples = 0;  // predictions that should name this class; of text, bytes
  uint64_t correct = 0;
  double loss_sum = 0;
};

struct ModelScore {
  Evaluation all;
  std::vector<ClassScore> classes;  // in their order
};

// images: uint8, samples x channels x height x width; labels: int64; tensors: as plan_model() lays them out; all on one
// device. Stops between two batches once `leaving` is set. `by_class`, where given, is added to.
Evaluation evaluate_batches(const ModelConfig& model, const std::vector<at::Tensor>& tensors, const at::Tensor& images,
                            const at::Tensor& labels, const std::atomic<bool>& leaving,
                            std::vector<ClassScore>* by_class);

// device: auto, cpu or cuda. REQUIRES: as many params as plan_model() has; data that fit the model. Throws
// std::runtime_error with cause and remedy.
ModelScore evaluate_model(const ModelConfig& model, std::span<const float> params, const Dataset& data,
                          const std::string& device);

}  // namespace starling
