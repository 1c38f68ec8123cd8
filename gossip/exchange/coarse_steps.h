// Peers whose steps are too coarse to be compared with the own ones, meeting after meeting. A codec follows a coarser
// step at once, so that two agents that were apart for long mix again from their next meeting on. One that lies about
// its step, or is broken, would make everybody's steps coarse at each meeting, and the noise of their rounding keeps
// models that settle apart. So a peer is followed once, and once more after each exchange in which the steps could be
// compared. An honest one that is met rarely may need it again before that: after 32 exchanges with whomever, then 64.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "gossip/limits.h"
#include "gossip/peer.h"

namespace starling {

class CoarseSteps {
 public:
  // Counts an exchange with the peer that ended. `comparable`: the steps of all blocks were. Says whether the codec
  // may learn from those that were not.
  bool follow(const PeerId& peer, bool comparable) {
    ++exchanges_;
    if (comparable) {
      followed_.erase(peer);
      return true;
    }
    if (followed_.size() > kMembersMax) followed_.clear();
    const auto [at, first] = followed_.try_emplace(peer);
    Followed& one = at->second;
    if (!first && exchanges_ < one.next) return false;
    one.next = exchanges_ + (kExchangesBetween << one.doublings);
    one.doublings = std::min(one.doublings + 1, kDoublingsMax);
    return true;
  }

  void forget(const PeerId& peer) { followed_.erase(peer); }

 private:
  static constexpr uint64_t kExchangesBetween = 32;
  static constexpr unsigned kDoublingsMax = 8;

  struct Followed {
    uint64_t next = 0;        // the exchange from which on the codec follows it again
    unsigned doublings = 0;
  };

  uint64_t exchanges_ = 0;    // with whomever
  std::unordered_map<PeerId, Followed> followed_;   // since steps could be compared
};

}  // namespace starling
