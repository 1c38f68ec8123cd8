// The kinds of model that swarm.model.kind names, and what the program must know of each before there is a trainer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/train/options.h"

namespace starling {

struct ModelKind {
  std::string_view name;
  std::string_view remark;              // for the list of choices; may be empty
  bool needs_data = true;               // trains on samples that are loaded from agent.data.path
  bool attached = false;                // a loop of the user's own trains it, through agent/attach
  std::vector<std::string> optimizers;  // of swarm.optimizer.kind
  // Throws std::runtime_error for sizes that make no model.
  uint64_t (*param_count)(const ModelConfig& model);
};

const std::vector<ModelKind>& model_kinds();
const ModelKind& model_kind(std::string_view name);  // REQUIRES: it is one of model_kinds()
// For people: the elements of all tensors, without the padding that param_count() has of a built-in network.
uint64_t count_elements(const ModelConfig& model);
std::vector<std::string> model_kind_names();
std::string describe_model_kinds();  // "cnn | mlp | ...", with the remarks

// Throws std::runtime_error, with the remedy, when this program cannot train the model: only a loop of its users can.
void refuse_attached(const ModelConfig& model);

// Throws std::runtime_error when a model of that kind cannot be trained with that optimizer.
void refuse_optimizer(std::string_view kind, const OptimizerConfig& optimizer);

}  // namespace starling
