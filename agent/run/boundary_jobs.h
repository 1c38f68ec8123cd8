// What an agent does at a boundary besides exchanging: it evaluates its model and saves it, when they are due.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "agent/observe/events.h"
#include "agent/observe/trouble_notice.h"
#include "agent/run/cadence.h"
#include "agent/run/checkpoint_jobs.h"
#include "agent/run/pace.h"
#include "agent/train/trainer.h"
#include "gossip/clock.h"

namespace starling {

class BoundaryJobs {
 public:
  using Next = std::function<void()>;

  // All references outlive the object. `pace` is told of the time that the jobs took: exchanges did not cost it.
  BoundaryJobs(const Cadence& cadence, CheckpointJobs checkpoints, Trainer& trainer, Pace& pace, const Clock& clock,
               Observer& observer)
      : cadence_(cadence),
        checkpoints_(std::move(checkpoints)),
        trainer_(trainer),
        pace_(pace),
        clock_(clock),
        observer_(observer),
        slow_disk_(clock) {}

  void start() { cadence_.start(last_look_ = clock_.now()); }

  // How long an evaluation that is due keeps steps waiting, by what the last one took; 0: none is due, or not known.
  Duration expected(bool training) const {
    return training && cadence_.evaluation_due(clock_.now()) ? evaluation_took_ : Duration::zero();
  }

  // All REQUIRE that the trainer is idle and none of these jobs runs.
  // Begins the job that is due, and calls `next` when steps may go on: a checkpoint is then written beside them. False:
  // none is due, or it waits for memory or the disk. `training`: evaluations are.
  [[nodiscard]] bool begin_due(bool training, const Progress& progress, Next next);
  void evaluate_then(uint64_t steps, Next next);
  void save_then(const Progress& progress, Next next);  // calls `next` once it is durable

  void save_soon() { cadence_.save_soon(clock_.now()); }  // at the next boundary

  CheckpointJobs& checkpoints() { return checkpoints_; }
  const CheckpointJobs& checkpoints() const { return checkpoints_; }
  void tick();  // an evaluation may have ended
  // Of the last evaluation after a first step; the accuracy is of 1. Negative: there was none.
  double accuracy() const { return accuracy_; }
  double test_loss() const { return test_loss_; }

 private:
  void evaluated();
  void look_at_disk(TimePoint now);

  Cadence cadence_;
  CheckpointJobs checkpoints_;
  Trainer& trainer_;
  Pace& pace_;
  const Clock& clock_;
  Observer& observer_;
  Next after_evaluation_;       // null: none runs
  uint64_t steps_ = 0;          // of the model being evaluated
  TimePoint began_;             // the job that runs
  TimePoint last_look_;         // by begin_due()
  Duration evaluation_took_{};  // the last one
  double accuracy_ = -1, test_loss_ = -1;
  TroubleNotice slow_disk_;
};

}  // namespace starling
