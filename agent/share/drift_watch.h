// How far the own steps of a round move the params, by a sketch of them: before the steps, and after them. Deltas of
// exchanges are applied in between two rounds' steps, so they do not count; else a liar could raise it. It takes
// two passes over the params, so it looks only where a guard asks (`on`).
#pragma once

#include <optional>

#include "gossip/clock.h"
#include "kernels/projection.h"

namespace starling {

// Used by the worker alone.
class DriftWatch {
 public:
  DriftWatch(const Clock& clock, bool on) : clock_(clock), on_(on) {}

  // Steps may have been taken since the last call of before_steps().
  void after_steps(ConstView params) {
    if (!before_) return;
    const double moved = timed([&] { return projected_distance(project(params), *before_); });
    if (moved > 0) drift_ = moved;
    before_.reset();
    next_ = clock_.now() + kRest * spent_;
    spent_ = Duration::zero();
  }
  void before_steps(ConstView params) {
    if (!on_ || clock_.now() < next_) return;
    timed([&] { return before_ = project(params), 0; });
  }
  void discarded() { before_.reset(); }  // the params come from elsewhere

  double drift() const { return drift_; }  // of the last round that was looked at; 0: none yet

 private:
  static constexpr int kRest = 200;  // times what looking took

  template <typename Look>
  double timed(const Look& look) {
    const TimePoint began = clock_.now();
    const double result = look();
    spent_ += clock_.now() - began;
    return result;
  }

  const Clock& clock_;
  const bool on_;
  std::optional<Projection> before_;
  double drift_ = 0;
  TimePoint next_ = TimePoint::min();
  Duration spent_{};
};

}  // namespace starling
