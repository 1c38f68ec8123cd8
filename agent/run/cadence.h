// When a checkpoint or an evaluation is due.
#pragma once

#include <algorithm>
#include <chrono>

#include "gossip/clock.h"

namespace starling {

class Cadence {
 public:
  // Zero: no evaluations; no checkpoint after the first.
  Cadence(Duration checkpoint_every, Duration evaluate_every)
      : checkpoint_every_(checkpoint_every), evaluate_every_(evaluate_every) {}

  // Both are due from now on: a donor has something to serve from its first boundary.
  void start(TimePoint now) { next_checkpoint_ = next_evaluation_ = now; }

  bool checkpoint_due(TimePoint now) const { return now >= next_checkpoint_; }
  bool checkpoint_overdue(TimePoint now, Duration by) const { return now - by >= next_checkpoint_; }
  // While one is being written since `began`.
  bool another_due(TimePoint began, TimePoint now) const {
    return checkpoint_every_ > Duration::zero() && now - began >= checkpoint_every_;
  }
  bool evaluation_due(TimePoint now) const { return evaluate_every_ > Duration::zero() && now >= next_evaluation_; }

  void save_soon(TimePoint now) { next_checkpoint_ = std::min(next_checkpoint_, now); }

  // Counted from the end of the last one, so that there are steps in between, however long it takes.
  void checkpoint_saved(TimePoint now) {
    next_checkpoint_ = checkpoint_every_ > Duration::zero() ? now + checkpoint_every_ : TimePoint::max();
  }
  void checkpoint_failed(TimePoint now) {
    next_checkpoint_ = now + (checkpoint_every_ > Duration::zero() ? std::min(checkpoint_every_, kRetry) : kRetry);
  }
  // Evaluations take at most a twentieth of the time, however often they are asked for. The first one's duration says
  // little of the others: memory is not allocated yet, and code not loaded. Steps for as long follow it.
  void evaluated(TimePoint began, TimePoint now) {
    next_evaluation_ = now + std::max(evaluate_every_, (warm_ ? kStepsPerEvaluation : 1) * (now - began));
    warm_ = true;
  }

 private:
  static constexpr int kStepsPerEvaluation = 19;  // time of the one to time of the other
  static constexpr Duration kRetry = std::chrono::seconds(10);

  Duration checkpoint_every_, evaluate_every_;
  bool warm_ = false;  // there was an evaluation
  TimePoint next_checkpoint_ = TimePoint::max(), next_evaluation_ = TimePoint::max();
};

}  // namespace starling
