#include "agent/train/model_layers.h"

#include <algorithm>
#include <stdexcept>

#include "agent/train/model_kinds.h"
#include "agent/train/model_plan.h"

namespace starling {
namespace {

// Of a vgg: the convolutions are padded, and a pool stands before the second and the third.
double vgg_positions(const ModelConfig& model, const std::string& layer) {
  const int64_t cut = layer == "conv1" ? 1 : layer == "conv2" ? 2 : 4;
  return static_cast<double>(model.input[1] / cut) * static_cast<double>(model.input[2] / cut);
}

// How often a layer's weights are used for one sample.
double positions(const ModelConfig& model, const std::string& layer) {
  if (model.kind == "lstm") return layer == "embedding" ? 0 : static_cast<double>(model.input[2]);  // 0: a look-up
  if (model.kind == "vgg" && layer.starts_with("conv")) return vgg_positions(model, layer);
  if (model.kind != "cnn" || !layer.starts_with("conv")) return 1;
  int64_t height = model.input[1] - 4, width = model.input[2] - 4;
  if (layer != "conv1") {
    height = height / 2 - 4;
    width = width / 2 - 4;
  }
  return static_cast<double>(height) * static_cast<double>(width);
}

}  // namespace

std::vector<LayerFlops> model_layers(const ModelConfig& model) {
  if (model.kind == "quadratic") return {{"params", model.dimension, 2.0 * static_cast<double>(model.dimension)}};
  const std::vector<std::string> known = model_kind_names();
  if (std::find(known.begin(), known.end(), model.kind) == known.end()) {
    throw std::runtime_error("swarm.model.kind " + model.kind +
                             ": its FLOPs by layer are not known here; name a file "
                             "with its layers: --layers FILE, as in configs/layers");
  }
  std::vector<LayerFlops> layers;
  for (const ParamSlot& slot : plan_model(model).slots) {
    const std::string name = slot.name.substr(0, slot.name.find('.'));
    if (layers.empty() || layers.back().name != name) layers.push_back({.name = name});
    layers.back().params += slot.count;
    const bool weights = slot.shape.size() > 1;  // a bias only adds
    const double used = positions(model, name);
    layers.back().flops += (weights ? 2 : 1) * static_cast<double>(slot.count) * used;
    if (weights) layers.back().outputs += static_cast<double>(slot.shape[0]) * used;
  }
  return layers;
}

}  // namespace starling
