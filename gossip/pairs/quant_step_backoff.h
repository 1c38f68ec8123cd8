// Peers with quantization steps too coarse to compare with the own ones, meeting after meeting. A codec follows a
// coarser step at once, so that two agents that were apart for long mix again from their next meeting on. A peer that
// lies about its step, or is broken, would make all steps coarse at each meeting, and the rounding noise keeps settling
// models apart. So a peer is followed once, and again after each exchange with comparable steps. An honest peer that is
// met rarely may need more: it is followed again after kExchangesBetween exchanges with anybody, then after twice as
// many.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "gossip/limits.h"
#include "gossip/peer.h"

namespace starling {

class QuantStepBackoff {
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
    uint64_t next = 0;  // the exchange from which on the codec follows it again
    unsigned doublings = 0;
  };

  uint64_t exchanges_ = 0;                         // with whomever
  std::unordered_map<PeerId, Followed> followed_;  // since steps could be compared
};

}  // namespace starling
