// A clock that moves only when told.
#pragma once

#include "gossip/clock.h"
#include "kernels/check.h"

namespace starling {

class VirtualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance_to(TimePoint time) {  // REQUIRES: not before now()
    STARLING_CHECK(time >= now_);
    now_ = time;
  }
  void advance(Duration duration) { advance_to(now_ + duration); }

 private:
  TimePoint now_{std::chrono::hours(1)};  // so that "long ago" can be represented
};

}  // namespace starling
