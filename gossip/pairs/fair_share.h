// Whether a peer may have a turn of this agent, and whether this agent should ask it for one.
//
// Its share: one proposal for each turn that is due at a boundary. Otherwise a peer that proposes without end leaves no
// turn to the others. Among n agents above kFew, a peer's proposals are served while it takes part in at most one
// exchange in n - 2 boundaries on average, initiated or accepted. Honest peers take part in one in n - 1. Among fewer,
// one agent may always be the proposer, so only its proposals count, and one in n - 1 boundaries is served. Peers come
// early and late, so two proposals may follow each other, or three among many. A turn that ends undecided does not
// count.
//
// A peer that lets turns end undecided is neither served nor asked for 2^j deadlines, above 16 deadlines no more than
// about two minutes, since a link that failed for long may be back. Here j counts these turns since the last decided
// one, beyond kFree and beyond the median of the other peers (at most kUsualMax). A network loses frames without
// anybody's fault, and honest peers on a lossy network would otherwise bar each other. A peer that did not answer is
// only not asked, since its queue may be long. Exchanges of the peer and of this agent count apart: otherwise a peer
// that never votes would clear itself by proposing.
//
// A peer is untried while others have decided exchanges of a kind, and it has decided none. It may never decide, and
// all wait for an agent that tries it again. So its turn is brief (PairProposer::brief_turn), and its first undecided
// turn counts as the third in the schedule.
//
// A slow agent has one payload for others during its steps. Each peer that finds it spent is told of steps of its own:
// otherwise all come for the next payload, and all but one in vain.
//
// This bounds what one id takes. A machine with many ids takes many shares; a certified swarm alone bounds its ids.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "gossip/clock.h"
#include "gossip/limits.h"
#include "gossip/peer.h"

namespace starling {

class FairShare {
 public:
  static constexpr uint64_t kBoundariesMax = 16;
  static constexpr size_t kFew = 4;
  static constexpr uint32_t kFree = 3, kUsualMax = 3, kDoublingsMax = 8;
  static constexpr uint64_t kAheadMax = 16;  // boundaries, and as many peers with an appointment

  explicit FairShare(uint64_t turns_due = 1) : turns_due_(turns_due) {}  // at each boundary

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

  // `initiated`: by this agent. `began`: the peer answered. `deadline`: the unit of the bar.
  void undecided(const PeerId& peer, bool initiated, bool began, TimePoint now, Duration deadline) {
    One& one = of(peer);
    if (!initiated) one.paid_until = std::min(one.paid_until, one.paid_before);
    const uint32_t in_a_row = ++one.undecided[initiated], free = kFree + usual(peer, initiated);
    if (in_a_row <= free) return;
    const uint32_t doublings = std::min(in_a_row - free - 1, kDoublingsMax);
    const TimePoint until = now + std::min((uint32_t{1} << doublings) * deadline, std::max(16 * deadline, kLongMax));
    one.not_asked_until = std::max(one.not_asked_until, until);
    all_asked_from_ = std::max(all_asked_from_, until);
    if (began) one.not_served_until = std::max(one.not_served_until, until);
  }
  void decided(const PeerId& peer, bool initiated) {
    One& one = of(peer);
    one.undecided[initiated] = 0;
    one.decided[initiated] = any_decided_[initiated] = true;
  }
  // Others decided exchanges of this kind with this agent, ours or theirs, and the peer did not yet.
  bool untried(const PeerId& peer, bool initiated) const {
    const auto it = peers_.find(peer);
    return any_decided_[initiated] && (it == peers_.end() || !it->second.decided[initiated]);
  }
  TimePoint not_served_until(const PeerId& peer) const {  // in the past: it may be served
    const auto it = peers_.find(peer);
    return it == peers_.end() ? TimePoint{} : it->second.not_served_until;
  }
  std::vector<PeerId> not_asked(TimePoint now) const {  // that this agent should not ask
    std::vector<PeerId> peers;
    if (now >= all_asked_from_) return peers;
    for (const auto& [peer, one] : peers_) {
      if (one.not_asked_until > now) peers.push_back(peer);
    }
    return peers;
  }

  // When the peer shall ask, in the steps after a boundary: the first one after `boundary` that its share allows and no
  // other peer has, or else the last there is.
  uint64_t appointment(const PeerId& peer, uint64_t boundary, size_t candidates) {
    const uint64_t next = boundary + 1;
    uint64_t first = next;
    while (first < next + kAheadMax && !may_be_served(peer, first, candidates)) ++first;
    std::erase_if(appointments_, [&](const auto& row) { return row.first == peer || row.second < next; });
    const auto taken = [this](uint64_t one) {
      return std::any_of(appointments_.begin(), appointments_.end(),
                         [&](const auto& row) { return row.second == one; });
    };
    uint64_t chosen = first;
    while (chosen < first + kAheadMax && taken(chosen)) ++chosen;
    if (appointments_.size() < kAheadMax) appointments_[peer] = chosen;
    return chosen;
  }

 private:
  static constexpr Duration kLongMax = std::chrono::seconds(128);
  struct One {
    uint64_t paid_until = 0;     // due turn of this agent: those that were served are the peer's share up to it
    uint64_t paid_before = 0;    // without the last of them
    uint32_t undecided[2] = {};  // in a row: its exchanges, ours
    bool decided[2] = {};        // one at least, likewise
    TimePoint not_served_until{}, not_asked_until{};
  };
  static uint64_t every(size_t candidates) {
    return candidates < kFew ? candidates : std::min<uint64_t>(candidates - 1, kBoundariesMax);
  }
  static uint64_t in_advance(size_t candidates) { return (candidates < kFew ? 1 : 2) * every(candidates); }
  // The lower median over the other peers, bounded: they may be many, and lie.
  uint32_t usual(const PeerId& peer, bool initiated) const {
    std::vector<uint32_t> others;
    for (const auto& [other, one] : peers_) {
      if (other != peer) others.push_back(one.undecided[initiated]);
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
  TimePoint all_asked_from_{};               // none is barred from then on
  bool any_decided_[2] = {};                 // of any peer
  std::map<PeerId, uint64_t> appointments_;  // boundaries
};

}  // namespace starling
