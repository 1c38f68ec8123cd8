// Saving and restoring an agent's state, as jobs of the worker, while the trainer is idle.
#pragma once

#include <functional>
#include <optional>

#include "agent/observe/events.h"
#include "agent/share/model_memory.h"
#include "agent/state/state_keeper.h"
#include "agent/train/trainer.h"
#include "gossip/clock.h"
#include "gossip/worker.h"

namespace starling {

class CheckpointJobs {
 public:
  // `on_saved`: after a save that worked, when StateKeeper::model() has changed.
  CheckpointJobs(StateKeeper& keeper, Trainer& trainer, ModelMemory& model, Worker& worker, const Clock& clock,
                 Observer& observer, std::function<void()> on_saved)
      : keeper_(keeper), trainer_(trainer), model_(model), worker_(worker), clock_(clock), observer_(observer),
        on_saved_(std::move(on_saved)) {}

  // A save that fails is told to the observer and costs nothing else: `next` is called all the same.
  void save_then(const Progress& progress, std::function<void()> next);

  // Back to the newest good state. Nullopt: there is none.
  void restore_then(std::function<void(const std::optional<Progress>&)> next);

 private:
  StateKeeper& keeper_;
  Trainer& trainer_;
  ModelMemory& model_;
  Worker& worker_;
  const Clock& clock_;
  Observer& observer_;
  std::function<void()> on_saved_;
};

}  // namespace starling
