// Holds blocks that arrived before their PROPOSE. A small model's blocks are sent together with the proposal, and the
// bulk and control ports are separate streams. Count, bytes and time are bounded; a dropped block counts as lost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "gossip/clock.h"
#include "gossip/net/message.h"
#include "gossip/net/transport.h"

namespace starling {

class EarlyPairBlocks {
 public:
  static constexpr size_t kBytesPerPeerMax = 128 * 1024;
  static constexpr size_t kBlocksPerPeerMax = 256;
  static constexpr size_t kPeersMax = 64;

  explicit EarlyPairBlocks(size_t bytes_per_peer_max = kBytesPerPeerMax, size_t bytes_max = SIZE_MAX)
      : bytes_per_peer_max_(bytes_per_peer_max), bytes_max_(bytes_max) {}

  struct Item {
    BlockPayload block;
    SharedBytes payload;
  };

  // False: there is no room, or the block belongs to an older exchange than the one held for this proposer.
  [[nodiscard]] bool add(const BlockPayload& block, const SharedBytes& payload, TimePoint expires_at) {
    auto it = peers_.find(block.xid.proposer);
    if (it == peers_.end()) {
      if (peers_.size() >= kPeersMax) return false;
      it = peers_.try_emplace(block.xid.proposer).first;
    }
    Held& held = it->second;
    if (held.xid < block.xid) held = Held{block.xid, expires_at, 0, {}};
    const bool room = held.bytes + payload.size <= bytes_per_peer_max_ && bytes() + payload.size <= bytes_max_ &&
                      held.items.size() < kBlocksPerPeerMax;
    if (held.xid != block.xid || !room) return false;
    held.bytes += payload.size;
    held.items.push_back({block, payload});
    return true;
  }

  // Removes and returns the blocks held for this exchange. Blocks of the proposer's older exchanges are dropped.
  std::vector<Item> take(const ExchangeId& xid) {
    const auto it = peers_.find(xid.proposer);
    if (it == peers_.end()) return {};
    std::vector<Item> items;
    if (it->second.xid == xid) items = std::move(it->second.items);
    if (it->second.xid <= xid) peers_.erase(it);
    return items;
  }

  bool holds(const ExchangeId& xid, uint32_t index) const {
    const auto it = peers_.find(xid.proposer);
    return it != peers_.end() && it->second.xid == xid &&
           std::any_of(it->second.items.begin(), it->second.items.end(),
                       [&](const Item& item) { return item.block.index == index; });
  }

  void forget(const PeerId& proposer) { peers_.erase(proposer); }
  void expire(TimePoint now) {
    std::erase_if(peers_, [&](const auto& entry) { return entry.second.expires_at <= now; });
  }
  TimePoint next_expiry() const {
    TimePoint next = TimePoint::max();
    for (const auto& [peer, held] : peers_) next = std::min(next, held.expires_at);
    return next;
  }

 private:
  size_t bytes() const {
    size_t sum = 0;
    for (const auto& [peer, held] : peers_) sum += held.bytes;
    return sum;
  }

  const size_t bytes_per_peer_max_, bytes_max_;

  struct Held {
    ExchangeId xid;
    TimePoint expires_at;
    size_t bytes = 0;
    std::vector<Item> items;
  };
  std::map<PeerId, Held> peers_;
};

}  // namespace starling
