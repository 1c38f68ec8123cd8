// The last act of an agent's life: it stays while others still need it, says that it leaves, and waits until that is
// sent.
#pragma once

#include <cstdint>

#include "agent/run/swarm_clock.h"
#include "bootstrap/router.h"
#include "gossip/clock.h"

namespace starling {

class Shutdown {
 public:
  Shutdown(Router& router, const SwarmClock& swarm_clock, const Clock& clock)
      : router_(router), swarm_clock_(swarm_clock), clock_(clock) {}

  // Members that still settle need this agent's half of an exchange, and those that pause the final model, so it waits
  // for them, at most for `patience`. May be called again: the last patience counts.
  void begin(Duration patience);
  void tick();
  TimePoint next_deadline() const;
  bool begun() const { return stage_ != Stage::kNotBegun; }
  bool gone() const { return stage_ == Stage::kGone; }

 private:
  enum class Stage { kNotBegun, kWaiting, kSaid, kGone };
  bool nobody_needs_it() const;

  Router& router_;
  const SwarmClock& swarm_clock_;
  const Clock& clock_;
  Stage stage_ = Stage::kNotBegun;
  TimePoint wait_until_, next_;
};

}  // namespace starling
