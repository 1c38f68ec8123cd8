#include "agent/train/torch_backward.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "agent/train/torch_model.h"
#include "gossip/rng.h"

namespace starling {
namespace {

constexpr int64_t kBatch = 5;

ModelConfig some_model(const char* kind) {
  ModelConfig model;
  model.kind = kind;
  model.channels = 4;
  model.hidden = {20, 12};
  if (model.kind == "lstm") {
    model.input = {1, 1, 28};
    model.classes = 256;
    model.hidden = {12};
  }
  return model;
}

// One model with its params drawn, and bytes for it.
struct Net {
  explicit Net(const char* kind) : model(some_model(kind)), plan(plan_model(model)) {
    const auto count = static_cast<int64_t>(plan.param_count);
    params = at::zeros({count});
    draw_genesis(plan, 1, {params.data_ptr<float>(), plan.param_count});
    grads = at::full({count}, std::numeric_limits<float>::quiet_NaN());  // nothing is added to what was there
    tensors = slot_views(plan, params);
    for (const at::Tensor& tensor : tensors) tensor.requires_grad_(true);
    std::vector<int64_t> shape = model.input;
    shape.insert(shape.begin(), kBatch);
    bytes = at::empty(shape, at::kByte);
    Rng rng(3);
    for (int64_t i = 0; i < bytes.numel(); ++i) bytes.data_ptr<uint8_t>()[i] = static_cast<uint8_t>(rng.below(256));
    labels = at::arange(kBatch, at::kLong);
  }
  at::Tensor loss() const {
    return at::cross_entropy_loss(forward(model, tensors, bytes), targets(model, bytes, labels));
  }

  const ModelConfig model;
  const ModelPlan plan;
  at::Tensor params, grads, bytes, labels;
  std::vector<at::Tensor> tensors;
};

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == b.numel() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

TEST(FlatGradients, AreLibTorchsToTheBitAndInTheirPlaces) {
  for (const char* kind : {"mlp", "cnn", "vgg", "lstm"}) {
    SCOPED_TRACE(kind);
    const Net plain(kind), net(kind);
    plain.loss().backward();
    const std::vector<at::Tensor> places = slot_views(net.plan, net.grads);
    FlatGradients gradients(net.tensors, places);
    std::vector<int> told(net.tensors.size());
    gradients.tell_when_final([&](size_t i) {
      ++told[i];
      EXPECT_TRUE(same_bits(places[i], plain.tensors[i].grad())) << "told before it is in its place: " << i;
    });
    for (int step = 1; step <= 2; ++step) {
      gradients.backward(net.loss());
      EXPECT_EQ(told, std::vector<int>(net.tensors.size(), step));
      for (size_t i = 0; i < places.size(); ++i) {
        EXPECT_TRUE(same_bits(places[i], plain.tensors[i].grad())) << i;
        EXPECT_EQ(net.tensors[i].grad().const_data_ptr(), places[i].const_data_ptr()) << i;
      }
    }
  }
}

TEST(FlatGradients, OfLinearLayersTakeNoMemoryOfTheirOwn) {
  const Net net("mlp");
  FlatGradients gradients(net.tensors, slot_views(net.plan, net.grads));
  const at::Tensor x = at::ones({kBatch, 784});
  const void* const place = net.tensors[0].grad().const_data_ptr();
  const at::Tensor y = linear(x, net.tensors[0], net.tensors[1]);
  std::vector<const void*> found;
  net.tensors[0].register_hook([&](const at::Tensor& gradient) { found.push_back(gradient.const_data_ptr()); });
  gradients.backward(y.sum());
  EXPECT_EQ(found, std::vector<const void*>{place});
}

TEST(FlatGradients, OfWhatBackwardDoesNotReachAreZeroAndNotTold) {
  const Net net("mlp");
  FlatGradients gradients(net.tensors, slot_views(net.plan, net.grads));
  std::vector<size_t> told;
  gradients.tell_when_final([&](size_t i) { told.push_back(i); });
  gradients.backward(net.tensors[1].sum());
  EXPECT_EQ(told, std::vector<size_t>{1});
  for (size_t i = 0; i < net.tensors.size(); ++i) {
    EXPECT_TRUE(at::all(net.tensors[i].grad() == (i == 1 ? 1 : 0)).item<bool>()) << i;
  }
}

TEST(FlatGradients, OfATensorThatTwoLayersShareAreTheSumOfBoth) {
  const Net net("mlp");
  FlatGradients gradients(net.tensors, slot_views(net.plan, net.grads));
  int told = 0;
  gradients.tell_when_final([&](size_t i) { told += i == 4; });  // 10 x 12
  const at::Tensor &weight = net.tensors[4], &bias = net.tensors[5];
  const at::Tensor one = at::ones({1, 12}), two = at::full({1, 12}, 2.0f);
  gradients.backward(linear(one, weight, bias).sum() + linear(two, weight, bias).sum());
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(at::all(weight.grad() == 3).item<bool>());
}

}  // namespace
}  // namespace starling
