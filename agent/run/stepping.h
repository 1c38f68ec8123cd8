// The local steps between two boundaries: their learning rate, what they report, and how far this agent has come.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "agent/config/config.h"
#include "agent/run/pace.h"
#include "agent/run/recovery.h"
#include "agent/share/model_memory.h"
#include "agent/run/swarm_clock.h"
#include "agent/state/state_keeper.h"
#include "agent/train/trainer.h"
#include "gossip/clock.h"

namespace starling {

class Stepping {
 public:
  // All references outlive the object.
  Stepping(const SwarmConfig& swarm, Trainer& trainer, const ModelMemory& model, SwarmClock& swarm_clock,
           const Clock& clock);

  // A newcomer, whose model comes from a donor, begins with a short ramp of the learning rate.
  void start(const Progress& from, bool newcomer);
  void go_back(const Progress& to);  // the trainer holds an earlier model again
  void next_round() { ++progress_.round; }
  // The others have taken so many steps without this agent. It is as far as they are, or it would take a round more
  // than they do at the end.
  void leave_out(uint32_t steps) { progress_.steps += steps; }

  // Returns at once. `on_final` and `landing`: as LocalSteps says. REQUIRES: the trainer is idle.
  void begin(uint32_t count, std::function<bool(const FinalPart&)> on_final = {}, std::span<float> landing = {});
  bool ended() const { return trainer_.idle(); }
  TimePoint end() const;             // not before now; TimePoint::max(): the trainer wakes the control thread
  [[nodiscard]] bool take();         // takes what they report. False: the loss or a gradient was not finite

  // How far the swarm has come. To be called at each boundary, because the schedule follows it.
  void look_at_swarm();
  // Neither this agent nor the swarm has taken a step, as far as it has heard.
  bool swarm_begins() const { return progress_.steps == 0 && swarm_steps_ == 0; }
  bool all_taken() const { return stop_after_ > 0 && swarm_steps_ >= stop_after_; }
  uint64_t left() const { return stop_after_ > swarm_steps_ ? stop_after_ - swarm_steps_ : UINT64_MAX; }

  Pace& pace() { return pace_; }
  const Pace& pace() const { return pace_; }
  Recovery& recovery() { return recovery_; }
  const Progress& progress() const { return progress_; }
  uint64_t taken() const { return taken_; }   // steps of this trainer since start(), those before a step back too
  double loss() const { return loss_; }   // smoothed; 0: not known yet
  double learning_rate() const;
  uint32_t threads() const { return threads_; }   // as StepReport says

 private:
  Trainer& trainer_;
  const ModelMemory& model_;
  SwarmClock& swarm_clock_;
  const Clock& clock_;
  const OptimizerConfig optimizer_;
  const uint64_t stop_after_;
  const uint32_t local_steps_;
  const bool in_step_;               // all members take the steps of a round before any takes those of the next
  Pace pace_;
  Recovery recovery_;

  Progress progress_;
  uint64_t first_step_ = 0, swarm_steps_ = 0, taken_ = 0;
  bool newcomer_ = false;
  double loss_ = 0;
  uint32_t threads_ = 0;
};

}  // namespace starling
