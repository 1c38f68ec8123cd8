// The guard of a neighborhood's round: how much a neighbor counts, by its distance. Beyond kFar times the usual it is
// drawn nearer, beyond kCut times that it does not count, and its weight goes to the agent itself.
//
// Usual is the lower median of this round's neighbors, so that a swarm that moves apart all at once goes on mixing, or
// what was usual before, if that is larger. A neighbor that came alone has nothing to be compared with but the past:
// it is never cut off, and what it brings becomes usual.
//
// Not held: as group_guard.h says, and on a ring two halves that are more than kFar * kCut times the usual apart.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "gossip/exchange/robust_window.h"

namespace starling {

class NeighborGuard {
 public:
  static constexpr double kFar = 3, kCut = 10;
  static constexpr double kFarAtFirst = 30;    // while the past says nothing
  static constexpr size_t kSamplesMin = 8;     // with fewer it does not

  struct Near {
    double distance = 0;   // rms over the params
    double pace = 1;       // steps in a round, in units of the usual; at least 1
  };

  // The factor on each neighbor's weight, in [0, 1]. Learns from the round.
  std::vector<double> scales(const std::vector<Near>& neighbors) {
    if (neighbors.empty()) return {};
    std::vector<double> in_paces;
    for (const Near& one : neighbors) in_paces.push_back(one.distance / one.pace);
    const bool alone = neighbors.size() == 1;
    const bool known = past_.size() >= kSamplesMin;
    const double usual = std::max(alone ? 0 : lower_median(in_paces), known ? past_.median() : 0);
    const double allowed = (known ? kFar : kFarAtFirst) * usual;
    std::vector<double> scales;
    for (double distance : in_paces) {
      const double times = allowed == 0 ? 0 : distance / allowed;
      scales.push_back(times <= 1 ? 1 : times <= kCut || alone ? 1 / times : 0);
      if (distance > 0 && (times <= 1 || alone)) past_.add(distance);
    }
    return scales;
  }

 private:
  RobustWindow past_;      // distances that counted whole, in paces
};

}  // namespace starling
