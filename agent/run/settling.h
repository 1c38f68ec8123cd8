// The phase after the last step: exchanges without steps until the models agree, then the final evaluation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gossip/clock.h"

namespace starling {

constexpr uint32_t kNearInARow = 3;   // one close partner could be chance

class Settling {
 public:
  Settling(double final_distance, Duration settle_max) : final_distance_(final_distance), settle_max_(settle_max) {}

  void begin(TimePoint now) {
    active_ = true;
    near_in_a_row_ = 0;
    began_ = now;
  }
  void abandon() { active_ = false; }   // the params were lost, so the agent takes steps again
  bool active() const { return active_; }

  // An exchange that this agent began has ended, and the models were this far apart, relative to their own size.
  void met(double relative_distance) {
    if (active_) near_in_a_row_ = relative_distance <= final_distance_ ? near_in_a_row_ + 1 : 0;
  }

  bool overdue(TimePoint now) const { return now - began_ >= settle_max_; }

  // `training`: how many living agents still take steps, which move the mean. `candidates`: how many could be partners.
  bool settled(TimePoint now, size_t training, size_t candidates) const {
    if (overdue(now)) return true;
    return training == 0 && (candidates == 0 || near_in_a_row_ >= kNearInARow);
  }

 private:
  double final_distance_;
  Duration settle_max_;
  bool active_ = false;
  uint32_t near_in_a_row_ = 0;
  TimePoint began_;
};

}  // namespace starling
