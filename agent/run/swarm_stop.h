// The step at which a swarm's run ends: swarm.stop_after of its settings, or what a member has raised it to since.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "gossip/clock.h"

namespace starling {

class SwarmStop {
 public:
  // Claims of others are bounded: tenfold in a while, so that nobody can move the end out of sight.
  static constexpr uint64_t kRiseMax = 10;
  static constexpr Duration kRiseEvery = std::chrono::minutes(10);

  // `agreed`: swarm.stop_after. `raised`: by this agent, or in an earlier life; 0 or lower: not at all.
  SwarmStop(uint64_t agreed, uint64_t raised) : agreed_(agreed), steps_(agreed) {
    if (agreed > 0 && raised > agreed) steps_ = raised;
  }

  uint64_t steps() const { return steps_; }                          // on the swarm's clock; 0: it never ends
  uint64_t raised() const { return steps_ > agreed_ ? steps_ : 0; }  // for this member's record; 0: as agreed

  // A living member tells what it was raised to. True: the end is later from now on, as far as claims may move it in
  // this while. `own_steps`: that this agent's model has behind it, which tell of a run that was raised before it came.
  bool hear(uint64_t raised, uint64_t own_steps, TimePoint now) {
    if (agreed_ == 0 || raised <= steps_) return false;
    if (!heard_ || now - *heard_ >= kRiseEvery) {
      heard_ = now;
      from_ = std::max(steps_, own_steps);
    }
    const uint64_t next = raised / kRiseMax > from_ ? kRiseMax * from_ : raised;
    if (next <= steps_) return false;
    steps_ = next;
    return true;
  }

 private:
  const uint64_t agreed_;
  uint64_t steps_;
  std::optional<TimePoint> heard_;  // the first rise by others in this while
  uint64_t from_ = 0;               // they may raise it to tenfold this until that has passed
};

// What is wrong with raising the stop of a run to `wanted`, for people; empty: nothing. `agreed`: as SwarmStop's;
// `before`: the stop now.
std::string problem_of_stop(uint64_t wanted, uint64_t agreed, uint64_t before);

}  // namespace starling
