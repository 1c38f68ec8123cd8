// What a simulated swarm trains: trainers for its agents, and a judge of params.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "agent/config/config.h"
#include "agent/train/trainer.h"

namespace starling {

struct SimScore {
  double loss = 0;
  std::optional<double> accuracy;  // of 1; empty: the task has none
};

class SimTask {
 public:
  virtual ~SimTask() = default;
  // For an agent that holds this shard. `on_idle`: as TimedTrainer::Make says.
  virtual std::unique_ptr<Trainer> make(size_t shard, const SwarmConfig& swarm, const Clock& clock,
                                        std::function<void()> on_idle) = 0;
  // A trainer that holds all shards. Without one, the serial baseline uses the shards' trainers in turn.
  virtual bool has_trainer_for_all() const = 0;
  virtual std::unique_ptr<Trainer> make_for_all(const SwarmConfig& swarm, const Clock& clock,
                                                std::function<void()> on_idle) = 0;
  // `shards`: those that the swarm holds at that time, for a task with an optimum that depends on them.
  virtual SimScore score(std::span<const float> params, const std::vector<size_t>& shards) = 0;
};

// Each shard is a target, drawn from the swarm's rng seed; their mean is the optimum. The loss of params is half their
// mean square distance to it: what remains to be learned.
std::unique_ptr<SimTask> make_quadratic_task(const Config& config, size_t shards);

// Labelled images, for the models that LibTorch trains; in a file apart from the rest, which needs no LibTorch.
std::unique_ptr<SimTask> make_torch_task(const Config& config, size_t shards);

}  // namespace starling
