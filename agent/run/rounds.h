// The round machine: local steps, boundary, exchange, and again; then the settling phase; checkpoints and evaluations
// in between. A state machine on the control thread: arithmetic goes to the worker, steps to the trainer.
//
//   without overlap:  steps -> [apply what was decided, encode] -> exchange -> [apply] -> steps
//   with overlap:     steps -> [apply what was decided, encode] -> steps, the exchange beside them
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "agent/config/config.h"
#include "agent/observe/events.h"
#include "agent/run/cadence.h"
#include "agent/run/checkpoint_jobs.h"
#include "agent/run/meetings.h"
#include "agent/run/pace.h"
#include "agent/run/recovery.h"
#include "agent/run/settling.h"
#include "agent/run/sharing.h"
#include "agent/run/swarm_clock.h"
#include "agent/run/swarm_sampler.h"
#include "agent/state/state_keeper.h"
#include "agent/train/trainer.h"
#include "gossip/clock.h"
#include "gossip/worker.h"

namespace starling {

struct RoundsOptions {
  SwarmConfig swarm;
  Duration checkpoint_every{};
  Duration evaluate_every{};
  std::function<void()> on_saved;    // control thread, after a save that worked: StateKeeper::model() has changed
};

class Rounds {
 public:
  // `exchange` is null when the agent trains alone.
  Rounds(const RoundsOptions& options, Trainer& trainer, SharedModel& model, Exchange* exchange, SwarmSampler& sampler,
         SwarmClock& swarm_clock, StateKeeper& keeper, Worker& worker, const Clock& clock, Observer& observer);

  // A newcomer, whose model comes from a donor, begins with a short ramp of the learning rate.
  void start(const Progress& from, bool newcomer);
  void tick();
  TimePoint next_deadline() const;
  void stop();                       // after the current steps: checkpoint, then ended()
  bool ended() const { return state_ == State::kEnded; }   // stopped, or finished at stop_after

  Phase phase() const { return phase_; }
  const Progress& progress() const { return progress_; }
  double loss() const { return loss_; }
  double accuracy() const { return accuracy_; }
  double relative_distance() const { return meetings_.relative_distance(); }   // negative: not known yet
  double steps_per_s() const { return pace_.steps_per_s(); }
  double mass() const { return pace_.mass(); }
  double learning_rate() const;
  const ExchangeCounts& tally() const { return meetings_.tally(); }

 private:
  enum class State {
    kNotStarted, kStepping, kEvaluating, kWorking, kSharing, kServing, kPausing, kBoundary, kEnded
  };

  void boundary();
  bool do_what_is_due();
  void share();
  void after_steps();
  void after_evaluation();
  void begin_round();
  void begin_steps(uint32_t count);
  void start_steps(uint32_t count);
  void evaluate();
  void finish();
  bool wound_down(Duration patience);
  void save_then(std::function<void()> next);
  void became_sick(const std::string& reason);
  void pause(Duration duration);

  RoundsOptions options_;
  Trainer& trainer_;
  SharedModel& model_;
  SwarmSampler& sampler_;
  SwarmClock& swarm_clock_;
  const Clock& clock_;
  Observer& observer_;
  Cadence cadence_;
  Pace pace_;
  Settling settling_;
  Recovery recovery_;
  Meetings meetings_;
  Sharing sharing_;
  CheckpointJobs checkpoints_;

  State state_ = State::kNotStarted;
  Phase phase_ = Phase::kJoining;
  Progress progress_;
  bool stop_asked_ = false;
  uint64_t first_step_ = 0, swarm_steps_ = 0;
  bool newcomer_ = false;
  double loss_ = 0, accuracy_ = -1;
  std::optional<TimePoint> wind_down_until_;
  TimePoint pause_until_;
};

}  // namespace starling
