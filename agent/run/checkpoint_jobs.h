// Saving and restoring an agent's state. It is copied by a job of the worker while the trainer is idle, and written
// beside the steps. One is written at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/observe/events.h"
#include "agent/share/model_memory.h"
#include "agent/state/state_keeper.h"
#include "agent/train/trainer.h"
#include "gossip/clock.h"
#include "gossip/membership/membership.h"
#include "gossip/worker.h"

namespace starling {

class CheckpointJobs {
 public:
  // `writer` writes beside the steps; it may be the worker. `on_saved`: after a save that worked, when
  // StateKeeper::model() has changed.
  CheckpointJobs(StateKeeper& keeper, Trainer& trainer, ModelMemory& model, const Membership& membership,
                 Worker& worker, Worker& writer, const Clock& clock, Observer& observer, std::function<void()> on_saved)
      : keeper_(keeper),
        trainer_(trainer),
        model_(model),
        membership_(membership),
        worker_(worker),
        writer_(writer),
        clock_(clock),
        observer_(observer),
        on_saved_(std::move(on_saved)) {}

  // All REQUIRE that the trainer is idle until they call `next`. A save that fails is told to the observer and costs
  // nothing else: `next` is called all the same.
  // `next` once the state is copied, `written` once it is durable, or failed. Where there is no room for a copy, both
  // then. REQUIRES: !writing().
  void save_beside_then(const Progress& progress, std::function<void()> written, std::function<void()> next);
  void save_then(const Progress& progress, std::function<void()> next);  // `next` once it is durable
  // Makes memory beside the steps for the copy of the next one, which is due soon. REQUIRES: the trainer is idle.
  void make_room();
  void give_room_back();
  bool making_room() const { return room_ == Room::kBeingMade; }
  bool writing() const { return writing_; }                   // beside the steps
  TimePoint writing_since() const { return writing_since_; }  // of the last one beside the steps
  bool saved() const { return saved_; }                       // one worked
  const std::string& error() const { return error_; }         // of the last save; empty: it worked, or none has ended

  // Back to the newest good state. Nullopt: there is none.
  void restore_then(std::function<void(const std::optional<Progress>&)> next);

  // Puts another model's params in place of these. REQUIRES: as many.
  void replace_then(std::shared_ptr<const std::vector<float>> params, std::function<void()> next);

 private:
  struct Save;
  std::shared_ptr<Save> begin(const Progress& progress) const;
  void ended(const Save& save);
  void when_written(std::function<void()> job);

  StateKeeper& keeper_;
  Trainer& trainer_;
  ModelMemory& model_;
  const Membership& membership_;
  Worker& worker_;
  Worker& writer_;
  const Clock& clock_;
  Observer& observer_;
  std::function<void()> on_saved_;
  enum class Room { kNone, kBeingMade, kMade };  // for the next copy
  Room room_ = Room::kNone;
  bool writing_ = false, saved_ = false;
  TimePoint writing_since_;
  std::function<void()> after_writing_;  // null: nothing waits for it
  std::string error_;
};

}  // namespace starling
