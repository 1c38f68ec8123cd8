// The guard of pair exchanges. A partner counts as if it were `clip` times the usual distance away at most; beyond ten
// times that, the less the farther it is. One that comes no nearer all the same is refused for a while (no_nearer.h).
//
// Usual is the lower median over the peers of what each has been away, or what the own steps of a round move if that is
// more: after a rise of the learning rate all partners are far away at once. Each peer counts once. So whoever is far
// from most, because it restarts or was cut off, takes what they bring whole, and is near again: all that they have to
// do is to clip it and to wait. One that lies is far from all as well, but it does not move.
//
// Each side of an exchange moves by its own guard. By the smaller of both scales, an agent that its own data pull away
// would be drawn back the less the farther it is, until all refuse it for good.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "gossip/exchange/no_nearer.h"
#include "gossip/exchange/robust_window.h"
#include "gossip/peer.h"

namespace starling {

class ClipGuard {
 public:
  static constexpr size_t kSamplesMin = 8;     // with fewer the own steps alone say what is usual
  static constexpr double kUsualOfDrift = 8;   // times these, then
  static constexpr size_t kSamplesMax = 24;    // of the last meetings, with whomever
  static constexpr double kWildFrom = 10;      // times what is allowed
  static constexpr unsigned kMeetings = 4;     // see no_nearer.h
  static constexpr size_t kPeersMin = 3;       // of two that are far from each other nobody knows which one lies

  explicit ClipGuard(double clip) : clip_(clip) {}   // 0: off

  // The factor on the delta for a partner at this rms distance, in [0, 1]: 1 within the usual; 0: refused.
  // `drift`: rms of what the steps of a round move the own params; 0: not known. `learn`: the distance says something
  // of what is usual.
  double judge(const PeerId& peer, double distance, double drift, bool learn = true) {
    if (!std::isfinite(distance)) return 0;
    if (clip_ <= 0) return 1;
    const double scale = this->scale(distance, drift);
    if (learn) record(peer, distance);
    if (scale == 1) {
      known_.near(peer);
    } else if (peers() >= kPeersMin && known_.refuses(peer)) {
      return 0;
    }
    return scale;
  }

  // Of judge(), without learning.
  double scale(double distance, double drift) const {
    if (!std::isfinite(distance)) return 0;
    const double allowed = clip_ * usual(drift);
    if (clip_ <= 0 || allowed == 0 || distance <= allowed) return 1;
    const double clipped = allowed / distance;
    return clipped * std::min(1.0, kWildFrom * clipped);
  }

  // The exchange has moved both, by `part` of the distance for this agent; this guard had clipped it. Half of that is
  // expected to last until they meet again. `whole`: its momentum was mixed too, if it is carried.
  void drawn(const PeerId& peer, double distance, double part, bool whole = true) {
    if (clip_ > 0) known_.drawn(peer, distance, part / 2, whole);
  }
  void forget(const PeerId& peer) {
    known_.forget(peer);
    std::erase_if(distances_, [&](const auto& one) { return one.first == peer; });
  }

 private:
  // 0: nothing is known, or all models were identical.
  double usual(double drift) const {
    if (drift == 0) return 0;
    if (distances_.size() < kSamplesMin) return kUsualOfDrift / clip_ * drift;
    std::map<PeerId, std::vector<double>> of_peers;
    for (const auto& [peer, distance] : distances_) of_peers[peer].push_back(distance);
    std::vector<double> medians;
    for (auto& [peer, distances] : of_peers) medians.push_back(lower_median(std::move(distances)));
    return std::max(lower_median(std::move(medians)), drift);
  }

  size_t peers() const {
    std::set<PeerId> peers;
    for (const auto& [peer, distance] : distances_) peers.insert(peer);
    return peers.size();
  }

  void record(const PeerId& peer, double distance) {
    distances_.emplace_back(peer, distance);
    if (distances_.size() > kSamplesMax) distances_.pop_front();
  }

  double clip_;
  std::deque<std::pair<PeerId, double>> distances_;   // oldest first
  NoNearer known_{kMeetings};
};

}  // namespace starling
