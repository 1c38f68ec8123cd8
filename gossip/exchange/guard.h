// The clip guard scales the delta of an unusually distant partner down to the largest usual one. It bounds the harm of
// a broken or hostile member per exchange; it does not prevent it, because the member can meet many agents many times.
#pragma once

#include <algorithm>
#include <cmath>

#include "gossip/exchange/robust_window.h"

namespace starling {

class ClipGuard {
 public:
  static constexpr size_t kSamplesMin = 8;     // with fewer samples the guard is off
  static constexpr double kScaleMin = 0.1;     // below: refuse, since so small a delta is not worth the offer it uses

  explicit ClipGuard(double clip) : clip_(clip) {}   // 0: off

  // The factor on the delta for a partner at this rms distance, in [0, 1]: 1 within the usual; 0 if it is not finite.
  double scale(double distance) const {
    if (!std::isfinite(distance)) return 0;
    if (clip_ <= 0 || distances_.size() < kSamplesMin) return 1;
    const double allowed = clip_ * distances_.median();
    if (allowed == 0) return 1;   // a history of identical models tells nothing about the usual distance
    return distance <= allowed ? 1 : allowed / distance;
  }

  // To be called once per judged exchange, refused ones included. Otherwise a swarm that really moved apart would
  // refuse every exchange forever.
  void record(double distance) {
    if (std::isfinite(distance)) distances_.add(distance);
  }

 private:
  double clip_;
  RobustWindow distances_;
};

}  // namespace starling
