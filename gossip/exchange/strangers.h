// Peers that never decided an exchange with this agent, beside those that did. Ids cost nothing, so what one of them
// may take of this agent is all that they may take together, once others are known. Those that let exchanges end
// undecided bar them all, for 2^j deadlines and at most sixteen: there may be newcomers among them. While nobody is
// known three such exchanges are free, since any network loses frames; later one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>

#include "gossip/clock.h"
#include "gossip/limits.h"
#include "gossip/peer.h"

namespace starling {

class Strangers {
 public:
  static constexpr uint32_t kFree = 3, kFreeBesideOthers = 1, kDoublingsMax = 4;

  bool known(const PeerId& peer) const { return known_.contains(peer); }
  bool doubtful(const PeerId& peer) const { return !known(peer) && !known_.empty(); }
  bool both_doubtful(const PeerId& a, const PeerId& b) const { return doubtful(a) && doubtful(b); }

  void decided(const PeerId& peer, bool initiated) {
    if (known(peer)) return;
    in_a_row_[initiated] = 0;
    if (known_.size() >= kMembersMax) known_.clear();
    known_.insert(peer);
  }
  // `initiated`: by this agent. `began`: the peer answered. REQUIRES: not known.
  void undecided(bool initiated, bool began, TimePoint now, Duration deadline) {
    const uint32_t in_a_row = ++in_a_row_[initiated], free = known_.empty() ? kFree : kFreeBesideOthers;
    if (in_a_row <= free) return;
    const uint32_t doublings = std::min(in_a_row - free - (known_.empty() ? 1 : 0), kDoublingsMax);
    const TimePoint until = now + (uint32_t{1} << doublings) * deadline;
    not_asked_until_ = std::max(not_asked_until_, until);
    if (began) not_served_until_ = std::max(not_served_until_, until);
  }
  // In the past: it may be served, or asked.
  TimePoint not_served_until(const PeerId& peer) const { return known(peer) ? TimePoint{} : not_served_until_; }
  TimePoint not_asked_until(const PeerId& peer) const { return known(peer) ? TimePoint{} : not_asked_until_; }

 private:
  std::set<PeerId> known_;
  uint32_t in_a_row_[2]{};         // undecided exchanges of theirs, of ours
  TimePoint not_served_until_{}, not_asked_until_{};
};

}  // namespace starling
