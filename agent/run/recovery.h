// Sickness means that a loss, a gradient or params are not finite. Counts how often in a row it occurs, lowers the
// learning rate, and decides when it is over.
#pragma once

#include <chrono>
#include <cstdint>

#include "gossip/clock.h"

namespace starling {

constexpr uint32_t kSickInARowMax = 3;
constexpr Duration kHealthyAfter = std::chrono::seconds(30);  // of good steps

class Recovery {
 public:
  // False: too often in a row; another return to the last good state would end the same way.
  [[nodiscard]] bool fell_sick(TimePoint now) {
    sick_ = true;
    sick_since_ = now;
    rate_scale_ *= 0.5;
    return ++sick_in_a_row_ <= kSickInARowMax;
  }

  // Steps that were all finite.
  void took_good_steps(TimePoint now) {
    if (!sick_ && sick_in_a_row_ > 0 && now - sick_since_ > kHealthyAfter) {
      sick_in_a_row_ = 0;
      rate_scale_ = 1;
    }
    sick_ = false;
  }

  double rate_scale() const { return rate_scale_; }  // of the learning rate

 private:
  bool sick_ = false;  // no good step since
  uint32_t sick_in_a_row_ = 0;
  double rate_scale_ = 1;
  TimePoint sick_since_;
};

}  // namespace starling
