// Before the swarm's first step: an agent waits until as many are there as swarm.wait_for says. It says which are there
// and how many are missing when that changes, and again every 30 s.
#pragma once

#include <cstdint>
#include <string>

#include "agent/config/config.h"
#include "gossip/clock.h"
#include "gossip/membership/membership.h"

namespace starling {

class Gathering {
 public:
  // The references outlive the object.
  Gathering(const SwarmConfig& swarm, const Membership& membership, const Clock& clock);

  void skip() { over_ = true; }  // this agent has taken steps before
  // A member that starts again: the swarm may have begun, and ended, without it. It waits no longer than that.
  void wait_at_most(Duration patience) {
    patience_ = patience;
    until_ = clock_.now() + patience;
  }
  bool over() const { return over_; }
  void look();  // while it is not over

 private:
  struct Seen {
    uint32_t ready = 1;  // with this agent
    std::string here, preparing;
    bool begun = false;  // a member has taken a step
  };
  Seen see() const;
  void say(const Seen& seen);

  const uint32_t wait_for_;
  const Membership& membership_;
  const Clock& clock_;
  bool over_;
  Duration patience_{};
  TimePoint until_ = TimePoint::max();
  std::string said_;
  TimePoint next_, next_news_;
};

}  // namespace starling
