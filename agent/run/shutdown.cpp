#include "agent/run/shutdown.h"

#include "gossip/membership/options.h"

namespace starling {

void Shutdown::begin(Duration patience) {
  const TimePoint now = clock_.now();
  wait_until_ = now + patience;
  if (stage_ == Stage::kNotBegun) stage_ = Stage::kWaiting;
  if (stage_ == Stage::kWaiting) next_ = now;
}

void Shutdown::tick() {
  const TimePoint now = clock_.now();
  if (!begun() || gone() || now < next_) return;
  if (stage_ == Stage::kSaid) {
    stage_ = Stage::kGone;
  } else if (nobody_needs_it() || now >= wait_until_) {
    router_.announce_leave();
    stage_ = Stage::kSaid;
    next_ = now + kLastWords;
  } else {
    next_ = now + kLastWords / 4;
  }
}

bool Shutdown::nobody_needs_it() const {
  const SwarmClock::Tally others = swarm_clock_.tally(everybody);
  return others.taking_part + others.miss_the_end == 0;
}

TimePoint Shutdown::next_deadline() const { return begun() && !gone() ? next_ : TimePoint::max(); }

}  // namespace starling
