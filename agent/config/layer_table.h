// A file with the layers of a model: how large each is, and how long its part of backward takes, or how much it
// computes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/train/model_layers.h"
#include "compression/plan/sections.h"
#include "gossip/clock.h"

namespace starling {

struct LayerTable {
  std::string model;                     // its name, for people
  double forward_s = 0, backward_s = 0;  // of one step
  std::vector<PlanSection> layers;       // in the order of backward: the last layer of the model first
};

// YAML:
//   model: NAME
//   forward: 75ms       # of a step; half of backward if it is left out
//   backward: 150ms     # divided among the layers by their FLOPs
//   layers:             # in the order of forward
//     conv1: [9408, 236027904]    # params, FLOPs; or, in all rows, params and the time of backward: [9408, 1.5ms]
// `backward` of the caller wins over the file's; it scales times, too. Throws ConfigError with file and line: holes,
// zero sizes, negative times, times and FLOPs mixed, FLOPs without a time to divide.
LayerTable read_layer_table(const std::string& path, std::optional<Duration> backward);

// Layers in the order of forward; backward takes `backward_s` in all, divided by FLOPs. Throws std::runtime_error where
// they make no plan: see describe_fault().
LayerTable layers_by_flops(const std::string& model, const std::vector<LayerFlops>& layers, double backward_s);

}  // namespace starling
