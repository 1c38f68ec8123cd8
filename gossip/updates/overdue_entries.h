// When a member asks others for the entries of its round that have not come: the owner's may be lost on its way here,
// and someone else has it. Without it this member would go on from an old replica, and be late at the next boundary by
// all that it waited.
#pragma once

#include <algorithm>

#include "gossip/clock.h"
#include "gossip/exchange/round_wait.h"

namespace starling {

class OverdueEntries {
 public:
  // `small`: the entries of all slices together, so that it costs little when they come twice, and one that is only
  // late may be asked for too. The clock must outlive the object.
  OverdueEntries(Duration deadline_min, bool small, const Clock& clock)
      : deadline_min_(deadline_min), small_(small), clock_(clock) {}

  // A round begins. `patience`: how many times longer than usual to wait (UpdatePulls). Small entries are waited for as
  // long as they took where nobody was waited for: where the usual entry comes at its owner's deadline, one that is
  // lost would come after it.
  void begin(const RoundWait& wait, double patience) {
    const Duration fast = wait.fast_second();
    const Duration overdue = wait.overdue_at() - clock_.now();
    const bool early = small_ && fast > Duration::zero();
    const Duration usual = early ? std::max(deadline_min_ / 2, 3 * fast / 2) : overdue;
    ask_at_ = clock_.now() + from_seconds(patience * seconds(usual));
    asked_for_ = Duration::zero();
  }
  bool due() const { return ask_at_ <= clock_.now(); }
  TimePoint next() const { return ask_at_; }
  // They are asked for now. Each time for twice as long: what nobody has made yet nobody can send.
  void asked(const RoundWait& wait, double patience) {
    const Duration usual = std::max(deadline_min_, wait.first_wait() / kAsksADeadline);
    asked_for_ = std::max(2 * asked_for_, from_seconds(patience * seconds(usual)));
    ask_at_ = clock_.now() + asked_for_;
  }

 private:
  static constexpr int kAsksADeadline = 4;

  const Duration deadline_min_;
  const bool small_;
  const Clock& clock_;
  TimePoint ask_at_ = TimePoint::max();
  Duration asked_for_{};  // how long the last question of this round is given for its answer
};

}  // namespace starling
