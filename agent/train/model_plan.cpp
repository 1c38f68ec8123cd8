#include "agent/train/model_plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

#include "gossip/rng.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr uint64_t kGenesisStream = 0x47454e45534953ull;  // "GENESIS"
constexpr int64_t kSizeMax = 1 << 20;                     // of any one side: products stay far from overflow
constexpr int64_t kParamsMax = int64_t{1} << 36;

class Planner {
 public:
  // A weight and its bias, both drawn from a range that follows from the number of inputs per output. With kept_by_relu
  // the weight's is wider, so that values stay as large behind many layers (He et al., arXiv:1502.01852).
  void add_layer(const std::string& name, std::vector<int64_t> weight_shape, bool kept_by_relu = false) {
    add_pair(name + ".weight", name + ".bias", std::move(weight_shape), kept_by_relu);
  }

  // As torch.nn.LSTM names them: of the input (ih), then of the state (hh).
  void add_lstm_layer(const std::string& name, int64_t inputs, int64_t width) {
    add_pair(name + ".weight_ih_l0", name + ".bias_ih_l0", {4 * width, inputs}, false);
    add_pair(name + ".weight_hh_l0", name + ".bias_hh_l0", {4 * width, width}, false);
  }

  void add_linear_layers(const ModelConfig& model, int64_t width, bool kept_by_relu) {
    for (size_t i = 0; i < model.hidden.size(); ++i) {
      add_layer("fc" + std::to_string(i + 1), {model.hidden[i], width}, kept_by_relu);
      width = model.hidden[i];
    }
    add_layer("fc" + std::to_string(model.hidden.size() + 1), {model.classes, width});
  }

  void add_table(const std::string& name, int64_t rows, int64_t columns) { add(name + ".weight", {rows, columns}, 1); }

  ModelPlan take() { return std::move(plan_); }

 private:
  void add_pair(std::string weight, std::string bias, std::vector<int64_t> weight_shape, bool kept_by_relu) {
    int64_t inputs = 1;
    for (size_t i = 1; i < weight_shape.size(); ++i) inputs *= weight_shape[i];
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    const int64_t outputs = weight_shape[0];
    add(std::move(weight), std::move(weight_shape),
        kept_by_relu ? std::sqrt(6.0 / static_cast<double>(inputs)) : bound);
    add(std::move(bias), {outputs}, bound);
  }

  void add(std::string name, std::vector<int64_t> shape, double bound) {
    size_t count = 1;
    for (const int64_t size : shape) {
      if (__builtin_mul_overflow(count, static_cast<size_t>(size), &count) || count > size_t{kParamsMax}) {
        throw std::runtime_error("swarm.model: " + name + " would have more than 2^36 elements; use smaller sizes");
      }
    }
    plan_.slots.push_back({std::move(name), std::move(shape), plan_.param_count, count, bound});
    plan_.param_count += (count + kTensorAlignElements - 1) / kTensorAlignElements * kTensorAlignElements;
  }

  ModelPlan plan_;
};

void check_size(int64_t value, int64_t least, const std::string& key) {
  if (value >= least && value <= kSizeMax) return;
  throw std::runtime_error("swarm.model." + key + " is " + std::to_string(value) + "; it can be " +
                           std::to_string(least) + " to " + std::to_string(kSizeMax));
}

void plan_vgg(const ModelConfig& model, Planner& planner) {
  check_size(model.channels, 1, "channels");
  for (size_t side : {1, 2}) check_size(model.input[side], 8, "input (height and width, for a vgg)");
  planner.add_layer("conv1", {model.channels, model.input[0], 3, 3}, true);
  planner.add_layer("conv2", {2 * model.channels, model.channels, 3, 3}, true);
  planner.add_layer("conv3", {4 * model.channels, 2 * model.channels, 3, 3}, true);
  planner.add_layer("conv4", {4 * model.channels, 4 * model.channels, 3, 3}, true);
  planner.add_linear_layers(model, 4 * model.channels * (model.input[1] / 8) * (model.input[2] / 8), true);
}

void plan_lstm(const ModelConfig& model, Planner& planner) {
  if (model.input[0] != 1 || model.input[1] != 1) {
    throw std::runtime_error("swarm.model.input is no run of bytes; for an lstm it is [1, 1, LENGTH]");
  }
  if (model.hidden.empty()) {
    throw std::runtime_error("swarm.model.hidden is empty; an lstm needs the width of one layer at least");
  }
  planner.add_table("embedding", model.classes, model.hidden[0]);
  int64_t width = model.hidden[0];
  for (size_t i = 0; i < model.hidden.size(); ++i) {
    planner.add_lstm_layer("lstm" + std::to_string(i + 1), width, model.hidden[i]);
    width = model.hidden[i];
  }
  planner.add_layer("fc", {model.classes, width});
}

}  // namespace

ModelPlan plan_model(const ModelConfig& model) {
  if (model.input.size() != 3) {
    throw std::runtime_error("swarm.model.input has " + std::to_string(model.input.size()) +
                             " numbers; it takes three: [channels, height, width]");
  }
  for (const int64_t size : model.input) check_size(size, 1, "input");
  check_size(model.classes, 2, "classes");
  for (const int64_t width : model.hidden) check_size(width, 1, "hidden");
  Planner planner;
  if (model.kind == "cnn") {
    check_size(model.channels, 1, "channels");
    for (size_t side : {1, 2}) check_size(model.input[side], 14, "input (height and width, for a cnn)");
    const auto left = [](int64_t side) { return ((side - 4) / 2 - 4) / 2; };  // after both layers
    planner.add_layer("conv1", {model.channels, model.input[0], 5, 5});
    planner.add_layer("conv2", {2 * model.channels, model.channels, 5, 5});
    planner.add_layer("fc", {model.classes, 2 * model.channels * left(model.input[1]) * left(model.input[2])});
  } else if (model.kind == "mlp") {
    planner.add_linear_layers(model, model.input[0] * model.input[1] * model.input[2], false);
  } else if (model.kind == "vgg") {
    plan_vgg(model, planner);
  } else if (model.kind == "lstm") {
    plan_lstm(model, planner);
  } else {
    throw std::runtime_error("swarm.model.kind is `" + model.kind + "`; a network is cnn, lstm, mlp or vgg");
  }
  return planner.take();
}

PixelRange pixel_range(int64_t channels) {
  return channels == 3 ? PixelRange{.mean = 0.47, .deviation = 0.25} : PixelRange{.mean = 0.13, .deviation = 0.31};
}

std::vector<Matrix> model_matrices(const ModelConfig& model) {
  std::vector<Matrix> matrices;
  for (const ParamSlot& slot : plan_model(model).slots) {
    if (slot.shape.size() < 2) continue;
    const auto rows = static_cast<size_t>(slot.shape[0]);
    matrices.push_back({slot.offset, rows, slot.count / rows});
  }
  return matrices;
}

void draw_genesis(const ModelPlan& plan, uint64_t swarm_rng_seed, std::span<float> params) {
  STARLING_CHECK(params.size() == plan.param_count);
  Rng rng(swarm_rng_seed ^ kGenesisStream);
  size_t at = 0;
  for (const ParamSlot& slot : plan.slots) {
    while (at < slot.offset) params[at++] = 0;
    for (const size_t end = at + slot.count; at < end; ++at) {
      params[at] = static_cast<float>((2 * rng.uniform() - 1) * slot.init_bound);
    }
  }
  std::fill(params.begin() + static_cast<std::ptrdiff_t>(at), params.end(), 0.0f);
}

}  // namespace starling
