// The clip guard: a partner that is unusually far away moves us only as far as a usual one may. It bounds
// what a broken or hostile member does in one exchange; it does not make it harmless.
#pragma once

#include <algorithm>
#include <cmath>

#include "gossip/exchange/robust_window.h"

namespace starling {

class ClipGuard {
 public:
  static constexpr size_t kSamplesMin = 8;     // below: off
  static constexpr double kScaleMin = 0.1;     // below: refuse the exchange rather than starve both on crumbs

  explicit ClipGuard(double clip) : clip_(clip) {}   // 0: off

  // The factor for a partner at this rms distance; 1 when it is usual. 0 when the distance is not a number.
  double scale(double distance) const {
    if (!std::isfinite(distance)) return 0;
    if (clip_ <= 0 || distances_.size() < kSamplesMin) return 1;
    const double allowed = clip_ * distances_.median();
    if (allowed == 0) return 1;   // agents that were all alike say nothing about what is usual
    return distance <= allowed ? 1 : allowed / distance;
  }

  // Each judged exchange once, refused ones too: a swarm that really moved apart becomes usual.
  void record(double distance) {
    if (std::isfinite(distance)) distances_.add(distance);
  }

 private:
  double clip_;
  RobustWindow distances_;
};

}  // namespace starling
