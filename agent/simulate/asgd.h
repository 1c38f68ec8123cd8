// The server of the baseline asgd: it applies each gradient on arrival, to params that have changed since the gradient
// was computed.
#pragma once

#include <vector>

#include "agent/config/config.h"
#include "agent/simulate/timed_trainer.h"

namespace starling {

class AsgdServer {
 public:
  // Begins with the first worker's params, and without momentum.
  AsgdServer(std::vector<TimedTrainer*> workers, const OptimizerConfig& optimizer);

  // The gradient of one of this worker's batches at the params as they are now. False: it is not finite.
  bool compute(size_t worker, std::vector<float>* gradient);
  // For n workers at 1/n of the learning rate: n gradients then move the params as far as one step on their mean.
  void apply(const std::vector<float>& gradient, double learning_rate);

  View params() { return {params_.data(), params_.size(), MemorySpace::kHost}; }

 private:
  const std::vector<TimedTrainer*> workers_;
  const OptimizerConfig& optimizer_;
  std::vector<float> params_, momentum_;
};

}  // namespace starling
