// How often something is said that others can cause at will: again after `first`, and then after twice as long each,
// up to `longest`.
#pragma once

#include <algorithm>

#include "gossip/clock.h"

namespace starling {

class RepeatLimit {
 public:
  RepeatLimit(Duration first, Duration longest) : pause_(first), longest_(longest) {}

  // Whether it is said now; counts it if so.
  bool allows(TimePoint now) {
    if (now < next_) return false;
    next_ = now + pause_;
    pause_ = std::min(2 * pause_, longest_);
    return true;
  }

 private:
  Duration pause_;
  Duration longest_;
  TimePoint next_ = TimePoint::min();
};

}  // namespace starling
