// The first params of a swarm that goes on from a trained model: a tensor file (agent.genesis), which `starling init
// --from` writes. The agent that begins the swarm reads it; the others fetch the model from that one.
#pragma once

#include <string>
#include <vector>

#include "agent/state/tensor_file.h"
#include "agent/train/model_plan.h"
#include "agent/train/trainer.h"

namespace starling {

// The sizes that its network has, as a text of the metadata ("model"), and back. The text is foreign: throws
// std::runtime_error with cause and remedy.
std::string describe_network(const ModelConfig& model);
ModelConfig network_of(const TensorFile& file, const std::string& path);

// The flat params of the network, in the file's values. Throws std::runtime_error with cause and remedy: a tensor is
// missing, has another shape, is no part of that network, or is not finite.
std::vector<float> flat_params(const TensorFile& file, const ModelPlan& plan, const std::string& path);

// Reads the file into the params of the idle trainer, which has just been made. Throws std::runtime_error, likewise.
void begin_from(const std::string& path, const ModelConfig& model, Trainer& trainer);

}  // namespace starling
