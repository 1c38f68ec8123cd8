// Peers that never decided an exchange with this agent, beside those that did. Ids cost nothing, so once others are
// known all unproven peers together may take the share of one. Those that let exchanges end undecided bar them all, for
// 2^j deadlines, bounded by kDoublingsMax. While nobody is known kFree such exchanges cost nothing, since any network
// loses frames; later kFreeBesideOthers. Newcomers may be among them: an unproven peer that let no exchange end itself
// is served one deadline later. It is not asked, since that costs the most.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>

#include "gossip/clock.h"
#include "gossip/limits.h"
#include "gossip/pairs/failure_backoff.h"
#include "gossip/peer.h"

namespace starling {

class UnprovenPeers {
 public:
  static constexpr uint32_t kFree = 3, kFreeBesideOthers = 1, kDoublingsMax = 4, kRefusedFree = 8;
  static constexpr uint32_t kMadeUp = 8;

  bool known(const PeerId& peer) const { return known_.contains(peer); }
  // Others decided exchanges of this kind with this agent, ours or theirs, and the peer did not yet.
  bool untried(const PeerId& peer, bool initiated) const {
    return !decided_[initiated].empty() && !decided_[initiated].contains(peer);
  }
  bool doubtful(const PeerId& peer) const { return !known(peer) && !known_.empty(); }
  bool both_doubtful(const PeerId& a, const PeerId& b) const { return doubtful(a) && doubtful(b); }
  // Others are known, and some of these let exchanges end undecided, ours or theirs, since the last of them became
  // known by one of that kind.
  bool suspicious() const { return !known_.empty() && undecided_.any(); }
  bool suspected(const PeerId& peer) const { return suspicious() && !known(peer); }
  // So many exchanges came to nothing in a row that these ids seem to be made to join.
  bool made_up() const {
    return !known_.empty() && std::max(undecided_.in_a_row(false), undecided_.in_a_row(true)) >= kMadeUp;
  }

  void decided(const PeerId& peer, bool initiated) {
    remember(decided_[initiated], peer);
    if (known(peer)) return;
    undecided_.decided(initiated);
    refused_in_a_row_ = 0;
    remember(known_, peer);
  }
  // As FailureBackoff::add. REQUIRES: not known.
  void undecided(const PeerId& peer, bool initiated, bool began, TimePoint now, Duration deadline) {
    remember(blamed_, peer);
    if (began) others_not_served_until_ = now + deadline;
    undecided_.add(initiated, began, known_.empty() ? kFree : kFreeBesideOthers, kDoublingsMax, now, deadline);
  }
  // An exchange with the peer came to nothing, perhaps by BUSY. That is no fault, so the peer is not blamed, but many
  // in a row are in vain: none of them is asked for a while.
  void refused(const PeerId& peer, TimePoint now, Duration deadline) {
    if (!doubtful(peer) || ++refused_in_a_row_ <= kRefusedFree) return;
    undecided_.add(true, false, kFreeBesideOthers, kDoublingsMax, now, deadline);
  }
  // In the past: it may be served, or asked.
  TimePoint not_served_until(const PeerId& peer) const {
    if (known(peer)) return TimePoint{};
    const TimePoint until = undecided_.not_served_until();
    return known_.empty() || blamed_.contains(peer) ? until : std::min(until, others_not_served_until_);
  }
  TimePoint not_asked_until(const PeerId& peer) const {
    return known(peer) ? TimePoint{} : undecided_.not_asked_until();
  }

 private:
  static void remember(std::set<PeerId>& peers, const PeerId& peer) {
    if (peers.size() >= kMembersMax && !peers.contains(peer)) peers.clear();
    peers.insert(peer);
  }

  std::set<PeerId> known_;
  std::set<PeerId> decided_[2];  // those of which an exchange was: theirs, ours
  std::set<PeerId> blamed_;      // let one end undecided
  TimePoint others_not_served_until_{};
  FailureBackoff undecided_;
  uint32_t refused_in_a_row_ = 0;
};

}  // namespace starling
