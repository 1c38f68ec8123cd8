#include "agent/train/torch_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <tuple>

#include "agent/train/torch_backward.h"
#include "kernels/check.h"

namespace starling {

std::vector<at::Tensor> slot_views(const ModelPlan& plan, const at::Tensor& flat) {
  std::vector<at::Tensor> views;
  for (const ParamSlot& slot : plan.slots) {
    const at::Tensor run = flat.narrow(0, static_cast<int64_t>(slot.offset), static_cast<int64_t>(slot.count));
    views.push_back(run.view(slot.shape).variable_data());
  }
  return views;
}

namespace {

at::Tensor floats(const at::Tensor& bytes) {
  const PixelRange range = pixel_range(bytes.size(1));
  return bytes.to(at::kFloat).mul_(1 / (255 * range.deviation)).add_(-range.mean / range.deviation);
}

// The layers from tensors[first] on, a relu between two.
at::Tensor linear_layers(const std::vector<at::Tensor>& tensors, size_t first, at::Tensor x) {
  for (size_t i = first; i + 1 < tensors.size(); i += 2) {
    x = linear(x, tensors[i], tensors[i + 1]);
    if (i + 2 < tensors.size()) x = at::relu(x);
  }
  return x;
}

at::Tensor vgg(const std::vector<at::Tensor>& tensors, at::Tensor x) {
  STARLING_CHECK(tensors.size() >= 10);
  const auto conv = [&](size_t layer) { return at::conv2d(x, tensors[2 * layer], tensors[2 * layer + 1], 1, 1); };
  x = at::relu(at::max_pool2d(conv(0), 2));
  x = at::relu(at::max_pool2d(conv(1), 2));
  x = at::relu(conv(2));
  x = at::relu(at::max_pool2d(conv(3), 2));
  return linear_layers(tensors, 8, x.flatten(1));
}

at::Tensor lstm(const std::vector<at::Tensor>& tensors, const at::Tensor& bytes) {
  STARLING_CHECK(tensors.size() >= 7);
  at::Tensor x = at::embedding(tensors[0], bytes.flatten(1).to(at::kLong));  // batch x length x width
  for (size_t i = 1; i + 2 < tensors.size(); i += 4) {
    const at::Tensor start = at::zeros({1, x.size(0), tensors[i + 2].size(1)}, x.options());
    x = std::get<0>(at::lstm(x, {start, start}, {tensors[i], tensors[i + 2], tensors[i + 1], tensors[i + 3]}, true, 1,
                             0, at::GradMode::is_enabled(), false, true));
  }
  return linear_layers(tensors, tensors.size() - 2, x.flatten(0, 1));
}

}  // namespace

at::Tensor forward(const ModelConfig& model, const std::vector<at::Tensor>& tensors, const at::Tensor& bytes) {
  if (model.kind == "lstm") return lstm(tensors, bytes);
  const at::Tensor images = floats(bytes);
  if (model.kind == "vgg") return vgg(tensors, images);
  if (model.kind == "cnn") {
    STARLING_CHECK(tensors.size() == 6);
    at::Tensor x = at::conv2d(images, tensors[0], tensors[1]);
    x = at::relu(at::max_pool2d(x, 2));  // the pool first: relu then has a quarter of the work
    x = at::conv2d(x, tensors[2], tensors[3]);
    x = at::relu(at::max_pool2d(x, 2));
    return linear(x.flatten(1), tensors[4], tensors[5]);
  }
  return linear_layers(tensors, 0, images.flatten(1));
}

at::Tensor targets(const ModelConfig& model, const at::Tensor& bytes, const at::Tensor& labels) {
  if (model.kind != "lstm") return labels;
  const at::Tensor rows = bytes.flatten(1).to(at::kLong);
  return at::cat({rows.narrow(1, 1, rows.size(1) - 1), labels.unsqueeze(1)}, 1).flatten();
}

}  // namespace starling
