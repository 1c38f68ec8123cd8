// What an agent keeps of its model beside the trainer: for checkpoints, and for the steps.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/view.h"

namespace starling {

class ModelMemory {
 public:
  virtual ~ModelMemory() = default;

  virtual ConstView correction() const { return {}; }  // of the gradients of the current round; count 0: none

  // A newcomer begins from the genesis: what the swarm has learned since comes with its first rounds.
  virtual bool begins_from_genesis() const { return false; }
  virtual void params_fetched() {}  // a member gave the trainer's params

  // Bytes for a checkpoint. Worker, while the trainer is idle and its values are those that are saved.
  virtual std::vector<std::byte> save() const = 0;
  // After the trainer was restored from the same checkpoint. False: a part does not fit and starts fresh.
  [[nodiscard]] virtual bool load(std::span<const std::byte> saved) = 0;
  // As load(), when the agent goes back to an earlier model: only what belongs to that model.
  [[nodiscard]] virtual bool load_rule(std::span<const std::byte> saved) = 0;
};

}  // namespace starling
