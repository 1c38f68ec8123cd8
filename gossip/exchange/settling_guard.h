// The guard of pairs while settling. Nothing pulls a model back then, so whatever one partner moves adds up in all of
// them. Without steps every exchange brings honest models nearer to each other and no other model takes them apart
// again, so what a partner may be away shrinks with each exchange that moved this agent towards it. One that lies moves
// everybody a few times, and counts no more.
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
    const auto found = left_.find(peer);
    const double left = found == left_.end() ? 1 : found->second;
    return distance > part_ * std::max(far.last, left * far.first);
  }

  // The exchange moved this agent by this part of the distance towards the peer.
  void drawn(const PeerId& peer, double part) {
    if (left_.size() > kMembersMax) left_.clear();
    left_.try_emplace(peer, 1).first->second *= 1 - part;
  }

  void forget(const PeerId& peer) { left_.erase(peer); }
  void begin_anew() { left_.clear(); }

 private:
  const double part_;
  std::unordered_map<PeerId, double> left_;   // of the first distance
};

}  // namespace starling
