// The share of this agent's turns that one peer may take: one for each turn that is due at a boundary. Otherwise a peer
// that proposes without end leaves no turn to the others.
//
// Among n agents above kFew, a peer's proposals are served while it takes part in at most one exchange in n - 2
// boundaries on average, initiated or accepted. Honest peers take part in one in n - 1. Among fewer, one agent may
// always be the proposer, so only its proposals count, and one in n - 1 boundaries is served. Peers come early and
// late, so two proposals may follow each other, or three among many. A turn that ends undecided does not count.
//
// A peer that lets turns end undecided is neither served nor asked for 2^j deadlines. Here j counts these turns since
// the last decided one, beyond kFree and beyond the median of the other peers (at most kUsualMax). A network loses
// frames without anybody's fault, and honest peers on a lossy network would otherwise bar each other.
//
// Peers without any decided turn count as one for this, once others have decided some (unproven_peers.h). While they
// are suspected, the caller computes the shares of the others without them: many invented ids would make each share
// small.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "gossip/clock.h"
#include "gossip/limits.h"
#include "gossip/pairs/failure_backoff.h"
#include "gossip/pairs/unproven_peers.h"
#include "gossip/peer.h"

namespace starling {

class FairShare {
 public:
  static constexpr uint64_t kBoundariesMax = 16;
  static constexpr size_t kFew = 4;
  static constexpr uint32_t kFree = 3, kUsualMax = 3, kDoublingsMax = 8;

  explicit FairShare(uint64_t turns_due = 1) : turns_due_(turns_due) {}  // at each boundary

  const UnprovenPeers& strangers() const { return strangers_; }

  // Whether a proposal of the peer may be served at this boundary. `candidates`: how many peers there are to exchange
  // with; 0: not known, and any may be served.
  bool may_be_served(const PeerId& peer, uint64_t boundary, size_t candidates) const {
    const auto it = peers_.find(peer);
    return it == peers_.end() || turns_due_ * boundary + in_advance(candidates) >= it->second.paid_until;
  }
  void served(const PeerId& peer, uint64_t boundary, size_t candidates) {
    One& one = of(peer);
    one.paid_before = one.paid_until;
    one.paid_until = std::max(one.paid_until, turns_due_ * boundary) + every(candidates);
  }

  // An exchange with it that is none of its proposals in turn.
  void met(const PeerId& peer, uint64_t boundary, size_t candidates) {
    if (candidates >= kFew) served(peer, boundary, candidates);
  }

  // As FailureBackoff::add.
  void undecided(const PeerId& peer, bool initiated, bool began, TimePoint now, Duration deadline) {
    One& one = of(peer);
    if (!initiated) one.paid_until = std::min(one.paid_until, one.paid_before);
    if (strangers_.doubtful(peer)) return strangers_.undecided(peer, initiated, began, now, deadline);
    one.undecided.add(initiated, began, kFree + usual(peer, initiated), kDoublingsMax, now, deadline);
  }
  void decided(const PeerId& peer, bool initiated) {
    strangers_.decided(peer, initiated);
    const auto it = peers_.find(peer);
    if (it != peers_.end()) it->second.undecided.decided(initiated);
  }
  // UnprovenPeers::refused.
  void refused(const PeerId& peer, TimePoint now, Duration deadline) { strangers_.refused(peer, now, deadline); }
  // In the past: it may be served, or asked.
  TimePoint not_served_until(const PeerId& peer) const {
    if (strangers_.doubtful(peer)) return strangers_.not_served_until(peer);
    const auto it = peers_.find(peer);
    return it == peers_.end() ? TimePoint{} : it->second.undecided.not_served_until();
  }
  TimePoint not_asked_until(const PeerId& peer) const {
    if (strangers_.doubtful(peer)) return strangers_.not_asked_until(peer);
    const auto it = peers_.find(peer);
    return it == peers_.end() ? TimePoint{} : it->second.undecided.not_asked_until();
  }

 private:
  struct One {
    uint64_t paid_until = 0;   // due turn of this agent: those that were served are the peer's share up to it
    uint64_t paid_before = 0;  // without the last of them
    FailureBackoff undecided;
  };
  static uint64_t every(size_t candidates) {
    return candidates < kFew ? candidates : std::min<uint64_t>(candidates - 1, kBoundariesMax);
  }
  static uint64_t in_advance(size_t candidates) { return (candidates < kFew ? 1 : 2) * every(candidates); }
  // The lower median over the other peers, strangers apart, bounded: they may be many, and lie.
  uint32_t usual(const PeerId& peer, bool initiated) const {
    std::vector<uint32_t> others;
    for (const auto& [other, one] : peers_) {
      if (other != peer && !strangers_.doubtful(other)) others.push_back(one.undecided.in_a_row(initiated));
    }
    if (others.empty()) return 0;
    const auto middle = others.begin() + static_cast<std::ptrdiff_t>((others.size() - 1) / 2);
    std::nth_element(others.begin(), middle, others.end());
    return std::min(*middle, kUsualMax);
  }
  One& of(const PeerId& peer) {
    if (peers_.size() >= kMembersMax && !peers_.contains(peer)) peers_.clear();
    return peers_[peer];
  }

  const uint64_t turns_due_;
  std::map<PeerId, One> peers_;
  UnprovenPeers strangers_;
};

}  // namespace starling
