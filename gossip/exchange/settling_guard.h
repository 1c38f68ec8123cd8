// The guard of pairs while settling. Nothing pulls a model back then, so whatever one partner moves adds up in all of
// them. Without steps every exchange brings honest models nearer to each other and no other model takes them apart
// again, so what a partner may be away shrinks with each exchange that moved this agent towards it. One that lies moves
// everybody a few times, and counts no more. A member may come late, when the others agree already, and whoever meets
// it first is moved away from them. So a partner may also be as far away as another member is by its record, but no
// farther than exchanges with that member have left of the first distance.
#pragma once

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "gossip/exchange/snapshot.h"
#include "gossip/limits.h"
#include "gossip/peer.h"

namespace starling {

class SettlingGuard {
 public:
  // `fragments`: an exchange carries one of so many parts of the model, of which one may have all of the distance.
  explicit SettlingGuard(uint32_t fragments) : part_(std::sqrt(static_cast<double>(fragments))) {}

  bool is_far(const PeerId& peer, double distance, const Far& far) const {
    double allowed = std::max(far.last, left(peer) * far.first);
    if (far.others) {
      for (const Apart& other : *far.others) {
        if (other.peer != peer) allowed = std::max(allowed, std::min(left(other.peer) * far.first, other.distance));
      }
    }
    return distance > part_ * allowed;
  }

  // The exchange moved this agent by this part of the distance towards the peer.
  void drawn(const PeerId& peer, double part) {
    if (left_.size() > kMembersMax) left_.clear();
    left_.try_emplace(peer, 1).first->second *= 1 - part;
  }

  void forget(const PeerId& peer) { left_.erase(peer); }
  void begin_anew() { left_.clear(); }

 private:
  double left(const PeerId& peer) const {
    const auto found = left_.find(peer);
    return found == left_.end() ? 1 : found->second;
  }

  const double part_;
  std::unordered_map<PeerId, double> left_;   // of the first distance
};

}  // namespace starling
