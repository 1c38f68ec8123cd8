// Holds blocks of a round that this agent has not begun: one round per sender, and of it only the blocks that the first
// credit allows.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "gossip/exchange/group_members.h"
#include "gossip/net/message.h"
#include "gossip/net/transport.h"

namespace starling {

class EarlyRoundBlocks {
 public:
  using Item = std::pair<RoundBlock, SharedBytes>;

  // Keeps the newest round of each sender, however far ahead: a slow member jumps to that round and needs its blocks.
  // A second copy replaces the first, since a fast agent may begin the same round again with a newer snapshot. False:
  // not held (not for this agent, beyond the first credit, or of an older round), or a second copy. `window`: blocks of
  // one stream that the first credit allows.
  [[nodiscard]] bool hold(const GroupMembers& members, size_t rank, const RoundBlock& block, const SharedBytes& payload,
                          uint32_t window);

  // Removes and returns the blocks of this member for this round. Its blocks of earlier rounds or of other groups are
  // dropped.
  std::vector<Item> take(const GroupMembers& members, size_t rank, uint64_t round);

  void keep_only(const GroupMembers& members);
  void forget(const PeerId& peer) { held_.erase(peer); }

 private:
  struct Held {
    uint64_t group = 0, round = 0;
    std::map<std::pair<uint8_t, uint32_t>, Item> blocks;  // by phase and index
  };
  std::map<PeerId, Held> held_;
};

}  // namespace starling
