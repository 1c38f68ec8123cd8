#include "agent/simulate/gradient_steps.h"

#include <algorithm>
#include <utility>

namespace starling {

GradientSteps::GradientSteps(std::vector<TimedTrainer*> workers, const OptimizerConfig& optimizer)
    : workers_(std::move(workers)), optimizer_(optimizer) {
  const View genesis = workers_[0]->params();
  params_.assign(genesis.data, genesis.data + genesis.count);
  momentum_.resize(params_.size());
}

bool GradientSteps::compute(size_t worker, std::vector<float>* gradient) {
  TimedTrainer& trainer = *workers_[worker];
  const View params = trainer.params(), momentum = trainer.momentum();
  std::copy(params_.begin(), params_.end(), params.data);
  std::fill_n(momentum.data, momentum.count, 0.0f);
  trainer.params_changed();
  trainer.start_steps({1, 1.0});
  if (!trainer.take_steps().finite) return false;
  gradient->resize(params.count);
  for (size_t i = 0; i < params.count; ++i) {  // the momentum was zero before the step, so now it is the gradient
    (*gradient)[i] = momentum.count > 0 ? momentum.data[i] : params_[i] - params.data[i];
  }
  return true;
}

void GradientSteps::apply(const std::vector<float>& gradient, double learning_rate) {
  const auto rate = static_cast<float>(learning_rate), keep = static_cast<float>(optimizer_.momentum);
  for (size_t i = 0; i < params_.size(); ++i) {
    momentum_[i] = keep * momentum_[i] + gradient[i];
    params_[i] -= rate * (optimizer_.nesterov ? gradient[i] + keep * momentum_[i] : momentum_[i]);
  }
}

}  // namespace starling
