// The guard of pair exchanges. What a partner brings counts like a partner that is `clip` times the usual distance away
// at most, and one that comes no nearer all the same is refused for a while (no_nearer.h).
//
// Usual is the lower median of the last distances, or what the own steps of a round move if that is more: after a rise
// of the learning rate all partners are far away at once, and a median of what was accepted would never learn of it.
// So a swarm that moves apart goes on mixing, a little at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
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
  static constexpr size_t kSamplesMax = 64, kOfOnePeer = 16;
  static constexpr double kGrowth = 1.5;       // a distance is remembered as so many times the usual at most
  static constexpr unsigned kMeetings = 4;     // see no_nearer.h

  explicit ClipGuard(double clip) : clip_(clip) {}   // 0: off

  // The factor on the delta for a partner at this rms distance, in [0, 1]: 1 within the usual; 0: refused.
  // `drift`: rms of what the steps of a round move the own params; 0: not known.
  double judge(const PeerId& peer, double distance, double drift) {
    if (!std::isfinite(distance)) return 0;
    if (clip_ <= 0) return 1;
    if (known_.refuses(peer)) return 0;
    const double scale = this->scale(distance, drift);
    if (scale == 1) known_.near(peer);
    record(peer, distance, drift);
    return scale;
  }

  // Of judge(), without learning.
  double scale(double distance, double drift) const {
    if (!std::isfinite(distance)) return 0;
    const double allowed = clip_ * usual(drift);
    return clip_ <= 0 || allowed == 0 || distance <= allowed ? 1 : allowed / distance;
  }

  // The exchange has moved both, by `part` of the distance for this agent; this guard had clipped it. Half of that is
  // expected to last until they meet again.
  void drawn(const PeerId& peer, double distance, double part) {
    if (clip_ > 0) known_.drawn(peer, distance, part / 2);
  }
  void forget(const PeerId& peer) { known_.forget(peer); }

 private:
  // 0: nothing is known, or all models were identical.
  double usual(double drift) const {
    if (distances_.size() < kSamplesMin) return kUsualOfDrift / clip_ * drift;
    std::vector<double> values;
    for (const auto& [peer, distance] : distances_) values.push_back(distance);
    return std::max(lower_median(std::move(values)), drift);
  }

  void record(const PeerId& peer, double distance, double drift) {
    const double usual = this->usual(drift);
    const auto of_peer = [&](const auto& one) { return one.first == peer; };
    if (std::count_if(distances_.begin(), distances_.end(), of_peer) >= static_cast<std::ptrdiff_t>(kOfOnePeer)) {
      distances_.erase(std::find_if(distances_.begin(), distances_.end(), of_peer));
    }
    distances_.emplace_back(peer, usual > 0 ? std::min(distance, kGrowth * usual) : distance);
    if (distances_.size() > kSamplesMax) distances_.pop_front();
  }

  double clip_;
  std::deque<std::pair<PeerId, double>> distances_;   // oldest first
  NoNearer known_{kMeetings};
};

}  // namespace starling
