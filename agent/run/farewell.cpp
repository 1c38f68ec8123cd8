#include "agent/run/farewell.h"

#include "gossip/membership/options.h"

namespace starling {

void Farewell::begin(Duration patience) {
  const TimePoint now = clock_.now();
  wait_until_ = now + patience;
  if (stage_ == Stage::kNotBegun) stage_ = Stage::kWaiting;
  if (stage_ == Stage::kWaiting) next_ = now;
}

void Farewell::tick() {
  const TimePoint now = clock_.now();
  if (!begun() || gone() || now < next_) return;
  if (stage_ == Stage::kSaid) {
    stage_ = Stage::kGone;
  } else if (swarm_clock_.tally(everybody).taking_part == 0 || now >= wait_until_) {
    membership_.announce_leave();
    stage_ = Stage::kSaid;
    next_ = now + kLastWords;
  } else {
    next_ = now + kLastWords / 4;
  }
}

TimePoint Farewell::next_deadline() const { return begun() && !gone() ? next_ : TimePoint::max(); }

}  // namespace starling
