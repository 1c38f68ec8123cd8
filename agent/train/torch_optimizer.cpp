#include "agent/train/torch_optimizer.h"

#include <ATen/ATen.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "kernels/check.h"

namespace starling {
namespace {

std::optional<at::Tensor> optional_tensor(const at::Tensor* tensor) {
  return tensor == nullptr ? std::nullopt : std::make_optional(*tensor);
}

// v = momentum * v + (gradient + weight_decay * x);  x -= learning_rate * v
// (nesterov: gradient + momentum * v)
class FlatSgd final : public TorchOptimizer {
 public:
  FlatSgd(const OptimizerConfig& config, const at::Tensor& params, const at::Tensor& grads)
      : config_(config), params_{params}, grads_{grads} {
    if (config.momentum > 0) momentum_.push_back(at::zeros_like(params));
  }

  void step(double learning_rate, const at::Tensor* skip) override {
    at::_fused_sgd_(params_, grads_, momentum_, config_.weight_decay, config_.momentum, learning_rate,
                    /*dampening=*/0, config_.nesterov, /*maximize=*/false, /*is_first_step=*/false,
                    /*grad_scale=*/{}, optional_tensor(skip));
  }

  bool cut(const std::vector<size_t>& ends) override {
    parts_.clear();
    size_t begin = 0;
    for (const size_t end : ends) {
      const auto views = [&](const std::vector<at::Tensor>& all) {
        std::vector<at::Tensor> part;
        for (const at::Tensor& one : all) {
          part.push_back(one.narrow(0, static_cast<int64_t>(begin), static_cast<int64_t>(end - begin)));
        }
        return part;
      };
      parts_.push_back({views(params_), views(grads_), views(momentum_)});
      begin = end;
    }
    return true;
  }

  void step_part(double learning_rate, size_t part, const at::Tensor* skip) override {
    STARLING_CHECK(part < parts_.size());
    Part& at = parts_[part];
    at::_fused_sgd_(at.params, at.grads, at.momentum, config_.weight_decay, config_.momentum, learning_rate,
                    /*dampening=*/0, config_.nesterov, /*maximize=*/false, /*is_first_step=*/false,
                    /*grad_scale=*/{}, optional_tensor(skip));
  }

  const at::Tensor* momentum() const override { return momentum_.empty() ? nullptr : momentum_.data(); }
  void append_state(std::vector<std::byte>&) const override {}
  bool load_state(std::span<const std::byte> state) override { return state.empty(); }

 private:
  struct Part {
    std::vector<at::Tensor> params, grads, momentum;  // views of those below
  };

  const OptimizerConfig config_;
  std::vector<at::Tensor> params_, grads_, momentum_;  // one flat tensor each, or none
  std::vector<Part> parts_;
};

// Adam with decoupled weight decay.
class FlatAdamW final : public TorchOptimizer {
 public:
  FlatAdamW(const OptimizerConfig& config, const at::Tensor& params, const at::Tensor& grads)
      : config_(config),
        params_{params},
        grads_{grads},
        mean_{at::zeros_like(params)},
        square_{at::zeros_like(params)},
        step_{at::zeros({}, params.options())} {}

  void step(double learning_rate, const at::Tensor* skip) override {
    if (skip == nullptr) {
      step_[0].add_(1);
    } else {
      step_[0].add_(1).sub_(skip->squeeze());
    }
    at::_fused_adamw_(params_, grads_, mean_, square_, {}, step_, learning_rate, config_.beta1, config_.beta2,
                      config_.weight_decay, config_.epsilon, /*amsgrad=*/false, /*maximize=*/false,
                      /*grad_scale=*/{}, optional_tensor(skip));
  }

  const at::Tensor* momentum() const override { return nullptr; }

  // {step, means, squares}, all float
  void append_state(std::vector<std::byte>& to) const override {
    size_t at = to.size();
    to.resize(at + step_[0].nbytes() + mean_[0].nbytes() + square_[0].nbytes());
    for (const at::Tensor& values : {step_[0], mean_[0], square_[0]}) {
      at::from_blob(to.data() + at, values.sizes(), at::kFloat).copy_(values);
      at += values.nbytes();
    }
  }

  bool load_state(std::span<const std::byte> state) override {
    const int64_t n = params_[0].numel();
    if (state.size() != static_cast<size_t>(1 + 2 * n) * sizeof(float)) return false;
    std::vector<float> values(static_cast<size_t>(1 + 2 * n));
    std::memcpy(values.data(), state.data(), state.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const bool is_mean = i >= 1 && i <= static_cast<size_t>(n);
      if (!std::isfinite(values[i]) || (!is_mean && values[i] < 0)) return false;
    }
    const at::Tensor all = at::from_blob(values.data(), {1 + 2 * n}, at::kFloat);
    step_[0].copy_(all[0]);
    mean_[0].copy_(all.narrow(0, 1, n));
    square_[0].copy_(all.narrow(0, 1 + n, n));
    return true;
  }

 private:
  const OptimizerConfig config_;
  std::vector<at::Tensor> params_, grads_, mean_, square_, step_;  // one flat tensor each; step_ is a scalar
};

void check_range(double value, double least, double below, const std::string& key) {
  if (value >= least && value < below) return;
  throw std::runtime_error("swarm.optimizer." + key + " is " + std::to_string(value) + "; it must be at least " +
                           std::to_string(least) + " and below " + std::to_string(below));
}

}  // namespace

bool TorchOptimizer::cut(const std::vector<size_t>&) { return false; }
void TorchOptimizer::step_part(double, size_t, const at::Tensor*) { STARLING_CHECK(false); }

std::unique_ptr<TorchOptimizer> make_torch_optimizer(const OptimizerConfig& config, const at::Tensor& params,
                                                     const at::Tensor& grads) {
  check_range(config.weight_decay, 0, 1e6, "weight_decay");
  if (config.kind == "sgd") {
    check_range(config.momentum, 0, 1, "momentum");
    if (config.nesterov && config.momentum == 0) {
      throw std::runtime_error("swarm.optimizer.nesterov needs a momentum; set swarm.optimizer.momentum, say to 0.9");
    }
    return std::make_unique<FlatSgd>(config, params, grads);
  }
  if (config.kind == "adamw") {
    check_range(config.beta1, 0, 1, "beta1");
    check_range(config.beta2, 0, 1, "beta2");
    check_range(config.epsilon, 1e-30, 1, "epsilon");
    return std::make_unique<FlatAdamW>(config, params, grads);
  }
  throw std::runtime_error("swarm.optimizer.kind is `" + config.kind + "`; it can be sgd or adamw");
}

}  // namespace starling
