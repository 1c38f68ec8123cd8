// The optimizer of a baseline that combines gradients in some way of its own: one copy of the params that all workers
// compute their gradients at.
#pragma once

#include <cstddef>
#include <vector>

#include "agent/config/config.h"
#include "agent/simulate/timed_trainer.h"

namespace starling {

class GradientSteps {
 public:
  // Begins with the first worker's params, and without momentum. The workers and `optimizer` must outlive the object.
  // REQUIRES: at least one worker; optimizer.kind sgd.
  GradientSteps(std::vector<TimedTrainer*> workers, const OptimizerConfig& optimizer);

  // The gradient of one of this worker's batches at the params as they are now. False: it is not finite.
  bool compute(size_t worker, std::vector<float>* gradient);
  // A step of SGD, with the optimizer's momentum.
  void apply(const std::vector<float>& gradient, double learning_rate);

  View params() { return {params_.data(), params_.size(), MemorySpace::kHost}; }

 private:
  const std::vector<TimedTrainer*> workers_;
  const OptimizerConfig& optimizer_;
  std::vector<float> params_, momentum_;
};

}  // namespace starling
