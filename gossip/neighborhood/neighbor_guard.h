// The guard of a neighborhood's round: how much a neighbor counts, by its distance. Beyond kFar times the usual
// distance it is clipped. Beyond kCut times that it does not count, and its weight goes to the agent itself. A neighbor
// that is drawn nearer round after round and comes no nearer does not count for a while (stagnation_check.h).
//
// Usual is the lower median of this round's neighbors, so that a swarm that moves apart all at once goes on mixing. If
// the past usual distance or the own steps are larger, they count: a neighbor that returns what it just got is near,
// and says nothing of the honest ones. A neighbor that comes alone can only be compared with the past. It is never cut
// off, and what it brings becomes usual: otherwise two agents that moved apart would never mix again.
//
// Not held: as group_guard.h says; and on a ring two halves that are more than kFar * kCut times the usual apart. A
// liar that stays within the bound moves it by kFar in half a window.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "gossip/exchange/robust_window.h"
#include "gossip/exchange/stagnation_check.h"
#include "gossip/peer.h"

namespace starling {

class NeighborGuard {
 public:
  static constexpr double kFar = 3, kCut = 10;
  static constexpr double kFarAtFirst = 30;  // while the past says nothing
  static constexpr size_t kSamplesMin = 8;   // with fewer it does not

  static constexpr unsigned kRounds = 16;  // see stagnation_check.h

  struct Near {
    PeerId peer;
    double distance = 0;  // rms over the params
    double pace = 1;      // steps in a round, in units of the usual; at least 1
  };

  // The factor on each neighbor's weight, in [0, 1]. Learns from the round. `drift`: rms of what the steps of a round
  // move the own params; 0: not known.
  std::vector<double> scales(const std::vector<Near>& neighbors, double drift) {
    std::vector<double> in_paces;
    std::vector<bool> refused;
    for (const Near& one : neighbors) {
      refused.push_back(known_.refuses(one.peer));
      if (!refused.back()) in_paces.push_back(one.distance / one.pace);
    }
    if (in_paces.empty()) return std::vector<double>(neighbors.size());
    const bool alone = in_paces.size() == 1;
    const bool known = past_.size() >= kSamplesMin;
    const double now = lower_median(in_paces), before = std::max(known ? past_.median() : 0, drift);
    const double usual = alone ? before : std::max(now, before);
    const double far = known ? kFar : kFarAtFirst, allowed = far * usual;
    std::vector<double> scales;
    for (size_t i = 0; i < neighbors.size(); ++i) {
      const Near& one = neighbors[i];
      const double distance = one.distance / one.pace;
      const double times = refused[i] || allowed == 0 ? 0 : distance / allowed;
      scales.push_back(refused[i] ? 0 : times <= 1 ? 1 : times <= kCut || alone ? 1 / times : 0);
      if (refused[i]) continue;
      if (times > 1 && !alone) known_.drawn(one.peer, one.distance, 0.05 / kRounds);
      if (times <= 1) known_.near(one.peer);
      if (distance > 0 && (distance <= now || distance <= far * before)) past_.add(distance);
    }
    return scales;
  }

  void forget(const PeerId& peer) { known_.forget(peer); }

 private:
  // Distances in paces, of each round the nearer half, and others that the past allows. One that draws this agent from
  // the honest ones makes them far, and is not to be near by that.
  RobustWindow past_;
  StagnationCheck known_{kRounds};
};

}  // namespace starling
