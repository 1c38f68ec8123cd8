// The guard of pair exchanges. A partner beyond `clip` times the usual distance counts as if it were there. Beyond
// kWildFrom times that, it counts less the farther away it is. A partner that comes no nearer is refused for a while
// (stagnation_check.h). No partner is refused for its distance alone: after a long absence all others would refuse it
// for ever.
//
// The usual distance is the lower median over the peers of their latest distances. If the own steps are longer, it is
// their length: after a rise of the learning rate all partners are far away at once. Each peer counts once. So an agent
// that is far from most, after a restart or a cut, takes whole models and is near again, while the others clip it. A
// liar is far from all as well, but it does not move.
//
// Each side of an exchange moves by its own guard. With the smaller of both scales, an agent with unusual data would be
// drawn back less the farther it is, until all refuse it for good.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "gossip/exchange/robust_window.h"
#include "gossip/exchange/stagnation_check.h"
#include "gossip/peer.h"

namespace starling {

class ClipGuard {
 public:
  static constexpr size_t kSamplesMin = 8;    // with fewer the own steps alone say what is usual
  static constexpr double kUsualOfDrift = 8;  // times these, then
  static constexpr size_t kSamplesMax = 24;   // of the last meetings, with whomever
  static constexpr double kWildFrom = 10;     // times what is allowed
  static constexpr unsigned kMeetings = 4;    // see stagnation_check.h
  static constexpr size_t kPeersMin = 3;      // with two distant peers this agent cannot tell which one lies

  explicit ClipGuard(double clip) : clip_(clip) {}  // 0: off

  // The factor on the delta for a partner at this rms distance, in [0, 1]. 1: within the usual distance. 0: refused.
  // `drift`: rms length of the own steps of a round; 0: not known. `learn`: the distance is a sample of what is usual.
  // While settling it is none: distances shrink then, and a late partner would seem far.
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
  std::deque<std::pair<PeerId, double>> distances_;  // oldest first
  StagnationCheck known_{kMeetings};
};

}  // namespace starling
