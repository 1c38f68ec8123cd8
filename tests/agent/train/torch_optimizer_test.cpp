#include "agent/train/torch_optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gossip/rng.h"

namespace starling {
namespace {

constexpr size_t kCount = 37;  // not a multiple of any vector's width

struct Flat {
  at::Tensor params = at::zeros({kCount}), grads = at::zeros({kCount});
  std::vector<double> x = std::vector<double>(kCount), g = std::vector<double>(kCount);  // the reference

  explicit Flat(uint64_t rng_seed) : rng(rng_seed) {
    for (size_t i = 0; i < kCount; ++i) x[i] = params.data_ptr<float>()[i] = draw();
  }
  void draw_gradient() {
    for (size_t i = 0; i < kCount; ++i) g[i] = grads.data_ptr<float>()[i] = draw();
  }
  void expect_near() const {
    for (size_t i = 0; i < kCount; ++i) EXPECT_NEAR(params.data_ptr<float>()[i], x[i], 1e-5) << i;
  }
  std::vector<float> values() const { return {params.data_ptr<float>(), params.data_ptr<float>() + kCount}; }

  Rng rng;

 private:
  float draw() { return static_cast<float>(rng.uniform() - 0.5); }
};

std::vector<std::byte> state_of(const TorchOptimizer& optimizer) {
  std::vector<std::byte> state(8, std::byte{7});  // what is before it stays
  optimizer.append_state(state);
  EXPECT_EQ((std::vector(state.begin(), state.begin() + 8)), std::vector(8, std::byte{7}));
  state.erase(state.begin(), state.begin() + 8);
  return state;
}

TEST(TorchOptimizer, SgdIsItsFormula) {
  for (const double mu : {0.0, 0.9}) {
    for (const bool nesterov : {false, true}) {
      for (const double decay : {0.0, 0.1}) {
        if (nesterov && mu == 0) continue;
        Flat flat(1);
        const OptimizerConfig config{.momentum = mu, .nesterov = nesterov, .weight_decay = decay};
        const auto optimizer = make_torch_optimizer(config, flat.params, flat.grads);
        EXPECT_EQ(optimizer->momentum() != nullptr, mu > 0);
        std::vector<double> v(kCount);
        for (int step = 0; step < 5; ++step) {
          flat.draw_gradient();
          for (size_t i = 0; i < kCount; ++i) {
            const double g = flat.g[i] + decay * flat.x[i];
            v[i] = mu * v[i] + g;
            flat.x[i] -= 0.1 * (nesterov ? g + mu * v[i] : v[i]);
          }
          optimizer->step(0.1, nullptr);
          flat.expect_near();
        }
        for (size_t i = 0; mu > 0 && i < kCount; ++i) {
          EXPECT_NEAR(optimizer->momentum()->const_data_ptr<float>()[i], v[i], 1e-5);
        }
      }
    }
  }
}

TEST(TorchOptimizer, AdamWIsItsFormula) {
  Flat flat(2);
  const OptimizerConfig config{.kind = "adamw", .weight_decay = 0.1, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6};
  const auto optimizer = make_torch_optimizer(config, flat.params, flat.grads);
  EXPECT_EQ(optimizer->momentum(), nullptr);
  std::vector<double> m(kCount), v(kCount);
  for (int step = 1; step <= 5; ++step) {
    flat.draw_gradient();
    optimizer->step(0.01, nullptr);
    for (size_t i = 0; i < kCount; ++i) {
      m[i] = 0.8 * m[i] + 0.2 * flat.g[i];
      v[i] = 0.95 * v[i] + 0.05 * flat.g[i] * flat.g[i];
      const double mean = m[i] / (1 - std::pow(0.8, step)), square = v[i] / (1 - std::pow(0.95, step));
      flat.x[i] -= 0.01 * (0.1 * flat.x[i] + mean / (std::sqrt(square) + 1e-6));
    }
    flat.expect_near();
  }
}

// What is zero and has no gradient stays zero: padding between tensors must not wander off.
TEST(TorchOptimizer, PaddingStaysZero) {
  for (const char* kind : {"sgd", "adamw"}) {
    at::Tensor params = at::zeros({40}), grads = at::zeros({40});
    const auto optimizer = make_torch_optimizer({.kind = kind, .weight_decay = 0.1}, params, grads);
    for (int i = 0; i < 3; ++i) optimizer->step(0.1, nullptr);
    EXPECT_EQ(params.count_nonzero().item<int64_t>(), 0) << kind;
  }
}

TEST(TorchOptimizer, AFlaggedStepChangesNothing) {
  for (const char* kind : {"sgd", "adamw"}) {
    Flat flat(3), twin(3);
    const auto optimizer = make_torch_optimizer({.kind = kind}, flat.params, flat.grads);
    const auto twin_optimizer = make_torch_optimizer({.kind = kind}, twin.params, twin.grads);
    const at::Tensor skip = at::ones({1}), go = at::zeros({1});
    for (int i = 0; i < 3; ++i) {
      flat.draw_gradient();
      twin.draw_gradient();
      optimizer->step(0.1, &go);
      twin_optimizer->step(0.1, nullptr);
      const at::Tensor good = flat.grads.clone();
      flat.grads.fill_(std::numeric_limits<float>::quiet_NaN());
      optimizer->step(0.1, &skip);
      flat.grads.copy_(good);
    }
    EXPECT_EQ(flat.values(), twin.values()) << kind;
    EXPECT_EQ(state_of(*optimizer), state_of(*twin_optimizer)) << kind;
  }
}

TEST(TorchOptimizer, AdamWResumesExactly) {
  Flat flat(4), resumed(5);
  const OptimizerConfig config{.kind = "adamw"};
  const auto optimizer = make_torch_optimizer(config, flat.params, flat.grads);
  for (int i = 0; i < 4; ++i) {
    flat.draw_gradient();
    optimizer->step(0.01, nullptr);
  }
  const auto second = make_torch_optimizer(config, resumed.params, resumed.grads);
  const std::vector<std::byte> state = state_of(*optimizer);
  ASSERT_TRUE(second->load_state(state));
  resumed.params.copy_(flat.params);
  resumed.rng = flat.rng;
  for (int i = 0; i < 4; ++i) {
    flat.draw_gradient();
    resumed.draw_gradient();
    optimizer->step(0.01, nullptr);
    second->step(0.01, nullptr);
  }
  EXPECT_EQ(flat.values(), resumed.values());

  const std::vector<std::byte> before = state_of(*second);
  EXPECT_FALSE(second->load_state({}));
  EXPECT_FALSE(second->load_state(std::span(state).first(state.size() - 4)));
  std::vector<std::byte> negative = state;
  negative[state.size() - 1] |= std::byte{0x80};  // a square below zero
  EXPECT_FALSE(second->load_state(negative));
  std::vector<std::byte> infinite = state;
  infinite[7] = std::byte{0x7f};
  infinite[6] = std::byte{0x80};
  EXPECT_FALSE(second->load_state(infinite));
  EXPECT_EQ(state_of(*second), before);
}

TEST(TorchOptimizer, NonsenseIsRefused) {
  const at::Tensor params = at::zeros({4}), grads = at::zeros({4});
  const std::vector<OptimizerConfig> wrong = {{.kind = "adam"},
                                              {.momentum = 1},
                                              {.momentum = -0.1},
                                              {.momentum = 0, .nesterov = true},
                                              {.weight_decay = -1},
                                              {.kind = "adamw", .beta1 = 1},
                                              {.kind = "adamw", .beta2 = -1},
                                              {.kind = "adamw", .epsilon = 0},
                                              {.momentum = std::nan("")}};
  for (const OptimizerConfig& config : wrong) {
    EXPECT_THROW(make_torch_optimizer(config, params, grads), std::runtime_error);
  }
}

}  // namespace
}  // namespace starling
