// The model that an agent left in its state folder, or that was exported. It is only read, so the agent may be running.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/config/settings.h"
#include "agent/state/checkpoint.h"
#include "agent/state/tensor_file.h"
#include "agent/train/model_plan.h"

namespace starling {

struct TrainedModel {
  AgreedSettings settings;           // of the agent's swarm
  ModelPlan plan;                    // where each tensor lies in checkpoint.content.params
  LoadedCheckpoint checkpoint;       // the newest whole one of that swarm
  std::vector<std::string> classes;  // by label; empty: the folder names none
};

// Says in the log which damaged checkpoints it passes over. Throws std::runtime_error with cause and remedy: no state
// folder of an agent, no whole checkpoint, or a model that is no network.
TrainedModel load_trained_model(const std::string& state_folder);

// As a file for other programs. Its values point into the checkpoint.
TensorFile as_tensor_file(const TrainedModel& trained);

// A model that a new swarm may begin from.
struct GivenModel {
  ModelConfig model;
  TensorFile file;
  std::string from;                    // the file that was read
  std::shared_ptr<const void> values;  // that `file` points into
  bool certified = false;              // of a certified swarm; a file of starling export does not say
};

// `path`: a state folder, a checkpoint in one, or a file of starling export. Throws as load_trained_model() and
// read_tensor_file() do, and where the tensors of a file are not those of the network that its metadata name.
GivenModel load_given_model(const std::string& path);

}  // namespace starling
