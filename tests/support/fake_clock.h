// A clock that a test moves by hand.
#pragma once

#include "gossip/clock.h"

namespace starling {

class FakeClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  uint64_t unix_seconds() const override { return unix_s; }
  void advance(Duration by) { now_ += by; }
  void set(TimePoint to) { now_ = to; }

  uint64_t unix_s = 0;  // which stands still

 private:
  TimePoint now_{std::chrono::hours(1)};
};

}  // namespace starling
