// The guard of pairs while settling. Without steps nothing pulls a model back, so the effect of each partner adds up.
// Every exchange brings honest models nearer, and nothing takes them apart again. So the distance allowed to a partner
// shrinks with each exchange that moved this agent towards it: a liar moves each agent a few times, and no more.
//
// A member may come late, after the others agree, and then moves the first agent that it meets. So a partner may also
// be as far away as the record of another member says. The limit is what exchanges with that member have left of its
// first distance, for a few exchanges only.
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

  // Beyond what exchanges with this partner itself have left of the first distance.
  bool is_beyond_own(const PeerId& peer, double distance, const Far& far) const {
    return distance > part_ * std::max(far.last, seen(peer).left * far.first);
  }

  bool is_far(const PeerId& peer, double distance, const Far& far) const {
    if (!is_beyond_own(peer, distance, far)) return false;
    if (!far.others || seen(peer).borrowed >= kBorrowedMax) return true;
    double allowed = 0;
    for (const Apart& other : *far.others) {
      if (other.peer != peer) allowed = std::max(allowed, std::min(seen(other.peer).left * far.first, other.distance));
    }
    return distance > part_ * allowed;
  }

  // The exchange moved this agent by this part of the distance towards the peer. `borrowed`: it was beyond its own.
  void drawn(const PeerId& peer, double part, bool borrowed = false) {
    if (seen_.size() > kMembersMax) seen_.clear();
    Seen& one = seen_[peer];
    one.left *= 1 - part;
    if (borrowed) one.borrowed += part;
  }

  void forget(const PeerId& peer) { seen_.erase(peer); }
  void begin_anew() { seen_.clear(); }

 private:
  // Without this bound a liar slightly ahead of the others is let in, on the record of a member that is never met.
  static constexpr double kBorrowedMax = 8;

  struct Seen {
    double left = 1;      // of the first distance
    double borrowed = 0;  // parts by which it moved this agent from beyond that
  };
  Seen seen(const PeerId& peer) const {
    const auto found = seen_.find(peer);
    return found == seen_.end() ? Seen() : found->second;
  }

  const double part_;
  std::unordered_map<PeerId, Seen> seen_;
};

}  // namespace starling
