#include "agent/train/model_layers.h"

#include <stdexcept>

#include "agent/train/model_plan.h"

namespace starling {
namespace {

// How often a layer's weights are used for one sample.
double positions(const ModelConfig& model, const std::string& layer) {
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
  if (model.kind != "cnn" && model.kind != "mlp") {
    throw std::runtime_error("swarm.model.kind " + model.kind + ": its FLOPs by layer are not known here; name a file "
                             "with its layers: --layers FILE, as in configs/layers");
  }
  std::vector<LayerFlops> layers;
  for (const ParamSlot& slot : plan_model(model).slots) {
    const std::string name = slot.name.substr(0, slot.name.find('.'));
    if (layers.empty() || layers.back().name != name) layers.push_back({.name = name});
    layers.back().params += slot.count;
    const double flops_each = slot.shape.size() > 1 ? 2 : 1;   // a bias only adds
    layers.back().flops += flops_each * static_cast<double>(slot.count) * positions(model, name);
  }
  return layers;
}

}  // namespace starling
