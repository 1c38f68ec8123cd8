// How much each layer of a built-in model computes, for plans of what is sent when. Needs no LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/train/options.h"

namespace starling {

struct LayerFlops {
  std::string name;
  uint64_t params = 0;
  double flops = 0;    // of forward, a sample; a multiplication and its addition are two
  double outputs = 0;  // of forward, a sample: numbers that its weights make
};

// In the order of forward; weight and bias are one layer. Throws std::runtime_error for sizes that make no model, and
// for a kind with FLOPs that are not known here.
std::vector<LayerFlops> model_layers(const ModelConfig& model);

}  // namespace starling
