// The local steps between two boundaries: their learning rate, what they report, and how far this agent has come.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "agent/config/config.h"
#include "agent/run/pace.h"
#include "agent/run/recovery.h"
#include "agent/run/swarm_clock.h"
#include "agent/share/model_memory.h"
#include "agent/state/state_keeper.h"
#include "agent/train/trainer.h"
#include "gossip/clock.h"

namespace starling {

class Stepping {
 public:
  // All references outlive the object.
  Stepping(const SwarmConfig& swarm, Trainer& trainer, const ModelMemory& model, SwarmClock& swarm_clock,
           const Clock& clock);

  // A newcomer, with a model from a donor, begins with a short ramp of the learning rate.
  void start(const Progress& from, bool newcomer);
  void go_back(const Progress& to);  // the trainer holds an earlier model again
  void next_round() { ++progress_.round; }
  // The others have taken so many steps without this agent. It is as far as they are, or it would take a round more
  // than they do at the end.
  void leave_out(uint32_t steps) { progress_.steps += steps; }

  // Returns at once. `on_final` and `landing`: as LocalSteps says. REQUIRES: the trainer is idle.
  void begin(uint32_t count, std::function<bool(const FinalPart&)> on_final = {}, std::span<float> landing = {});
  // The steps under way end with the one in hand, and later ones after one.
  void stop() { *stop_ = stopped_ = true; }
  bool ended() const { return trainer_.idle(); }
  bool may_follow() const { return trainer_.takes_more_steps(); }
  TimePoint end() const;  // not before now; TimePoint::max(): the trainer wakes the control thread
  // A loop of its own may pause: a validation, a breakpoint. It does from pauses_at() on, if no step comes before. Then
  // nobody waits for this agent, and the first step that comes ends the steps under way. take() ends the pause.
  TimePoint pauses_at() const;  // TimePoint::max(): it pauses already, or never
  [[nodiscard]] bool begins_pause();
  bool paused() const { return paused_since_.has_value(); }
  // While it pauses: whether the others have ended the run meanwhile. Then no step is left to take.
  bool run_ended() const { return run_ended_; }
  void look_at_end();
  [[nodiscard]] bool take();  // takes what they report. False: the loss or a gradient was not finite

  // How far the swarm has come. To be called at each boundary, because the schedule follows it.
  void look_at_swarm();
  // Neither this agent nor the swarm has taken a step, as far as it has heard.
  bool swarm_begins() const { return progress_.steps == 0 && swarm_steps_ == 0; }
  void set_stop(uint64_t steps) {  // later than before; the schedule stretches to it
    stop_after_ = steps;
    run_ended_ = false;
  }
  // An earlier life came to the end of the run that stopped there, with fewer steps of its own than the swarm perhaps.
  void has_ended_at(uint64_t stop_after) { ended_at_ = stop_after; }
  uint64_t stop_after() const { return stop_after_; }
  bool all_taken() const { return stop_after_ > 0 && swarm_steps_ >= stop_after_; }
  uint64_t left() const { return stop_after_ > swarm_steps_ ? stop_after_ - swarm_steps_ : UINT64_MAX; }

  Pace& pace() { return pace_; }
  const Pace& pace() const { return pace_; }
  Recovery& recovery() { return recovery_; }
  const Progress& progress() const { return progress_; }
  uint64_t taken() const { return taken_; }  // steps of this trainer since start(), those before a step back too
  uint64_t swarm_steps() const { return swarm_steps_; }
  std::optional<double> loss() const { return loss_; }  // smoothed; nullopt: not measured yet
  // What a later loss is compared with: the first one; of a model that was trained before, the greatest of 20 rounds,
  // since a good model's loss on one batch may be near 0.
  std::optional<double> first_loss() const { return first_loss_; }
  uint64_t rounds_diverging() const { return rounds_diverging_; }  // beyond 20 in a row above ten times that
  double learning_rate() const;
  uint32_t threads() const { return threads_; }  // as StepReport says

 private:
  void watch_loss();
  SwarmClock::Tally others() const;
  Duration pause_after() const;
  void end_pause(StepReport& report);

  Trainer& trainer_;
  const ModelMemory& model_;
  SwarmClock& swarm_clock_;
  const Clock& clock_;
  const OptimizerConfig optimizer_;
  const uint64_t agreed_stop_;
  uint64_t stop_after_;
  const uint32_t local_steps_;
  const bool in_step_;  // all members take the steps of a round before any takes those of the next
  Pace pace_;
  Recovery recovery_;

  Progress progress_;
  uint64_t first_step_ = 0, swarm_steps_ = 0, taken_ = 0;
  bool newcomer_ = false, stopped_ = false;
  std::optional<TimePoint> paused_since_;  // the last step before
  bool run_ended_ = false;
  uint64_t ended_at_ = 0;
  const std::shared_ptr<std::atomic<bool>> stop_;  // the trainer's thread may outlive this object
  std::optional<double> loss_;
  std::optional<double> first_loss_;
  uint64_t rounds_taken_ = 0, rounds_above_ = 0, rounds_diverging_ = 0;
  uint32_t threads_ = 0;
};

}  // namespace starling
