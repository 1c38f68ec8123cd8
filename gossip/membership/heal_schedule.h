// When to compare views next. The pause is short after the start, after meeting the first member, and after a dead
// member came back; then it doubles up to the heal interval.
#pragma once

#include <algorithm>

#include "gossip/membership/context.h"

namespace starling {

class HealSchedule {
 public:
  explicit HealSchedule(MembershipContext& context) : context_(context), pause_(context.options.heal_interval / 10) {
    next_ = context_.clock.now() + from_seconds(seconds(pause_) * context_.rng.uniform());
  }
  TimePoint next() const { return next_; }
  void advance() {
    next_ = after_pause();
    pause_ = std::min(2 * pause_, context_.options.heal_interval);
  }
  void soon() {
    pause_ = context_.options.heal_interval / 10;
    next_ = std::min(next_, after_pause());
  }
  void at_once() {
    soon();
    next_ = std::min(next_, context_.clock.now());
  }

 private:
  TimePoint after_pause() {
    return context_.clock.now() + from_seconds(seconds(pause_) * (0.5 + context_.rng.uniform()));
  }

  MembershipContext& context_;
  Duration pause_;
  TimePoint next_;
};

}  // namespace starling
