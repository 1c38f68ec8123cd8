// Lifeguard's local health multiplier: how badly this agent itself seems to be scheduled or connected; 0 is healthy. A
// higher score makes its probe periods longer, so that it accuses fewer members of its own faults.
#pragma once

#include <algorithm>
#include <cstdint>

namespace starling {

inline constexpr uint32_t kHealthScoreMax = 7;

class HealthScore {
 public:
  uint32_t value() const { return score_; }
  void change(int delta) {
    score_ = static_cast<uint32_t>(std::clamp(static_cast<int>(score_) + delta, 0, static_cast<int>(kHealthScoreMax)));
  }

 private:
  uint32_t score_ = 0;
};

}  // namespace starling
