// Peers that are drawn nearer again and again and come no nearer: liars and broken peers. An honest peer comes nearer
// with every exchange, however slowly, since both sides move. The others are refused for a while, longer each time. A
// refused peer is forgiven once it was near several times in a row, more often each time.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "gossip/limits.h"
#include "gossip/peer.h"

namespace starling {

class StagnationCheck {
 public:
  // `meetings`: in which it was far away, until it is judged.
  explicit StagnationCheck(unsigned meetings) : meetings_(meetings) {}

  // Whether this meeting with the peer is refused. Counts it.
  bool refuses(const PeerId& peer) {
    const auto found = peers_.find(peer);
    if (found == peers_.end() || found->second.refused == 0) return false;
    --found->second.refused;
    return true;
  }

  // The exchange moved this agent by this part of the distance towards the peer. Not `whole`: what pulls the peer away
  // was not mixed, so it comes nearer more slowly, and is given more meetings.
  void drawn(const PeerId& peer, double distance, double part, bool whole = true) {
    if (peers_.size() > kMembersMax) peers_.clear();
    Seen& seen = peers_[peer];
    seen.near = 0;
    if (!whole && seen.unlike < kUnlikeMax) {
      ++seen.unlike;
      return;
    }
    if (seen.far++ == 0) seen.expected = distance;
    const double expected = std::exchange(seen.expected, (1 - part) * seen.expected);
    if (seen.far <= meetings_) return;
    seen.far = 0;
    if (distance <= expected) return;
    seen.far = meetings_;  // one meeting will tell whether it has come nearer by then
    seen.refused = (4 * meetings_) << seen.doublings;
    seen.doublings = std::min(seen.doublings + 1, kDoublingsMax);
  }

  // It was near. One that is so now and then alone is far all the same, the more so the more often it was refused.
  void near(const PeerId& peer) {
    const auto found = peers_.find(peer);
    if (found != peers_.end() && ++found->second.near >= meetings_ << found->second.doublings) peers_.erase(found);
  }

  void forget(const PeerId& peer) { peers_.erase(peer); }

 private:
  static constexpr unsigned kDoublingsMax = 4;
  static constexpr unsigned kUnlikeMax = 64;  // with 16, honest newcomers were still refused for good

  struct Seen {
    unsigned far = 0, near = 0;           // meetings; the latter since it was last far
    unsigned unlike = 0;                  // those that were not whole, and not judged
    double expected = 0;                  // distance: from the first of the far ones on
    unsigned refused = 0, doublings = 0;  // meetings to come
  };

  unsigned meetings_;
  std::unordered_map<PeerId, Seen> peers_;  // those that were far away
};

}  // namespace starling
