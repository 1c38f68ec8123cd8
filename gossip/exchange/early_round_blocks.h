// Blocks of a round that this agent has not begun: of each sender one round, and of it no more than the first credit
// allows.
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

  // Of each sender the newest round, however far ahead: a slow member jumps there when it begins, and needs what came.
  // A newer copy replaces an older one: a fast agent that begins the same round again says its newer word. False: no
  // honest sender would have sent it yet. `window`: blocks of one stream ahead of its first credit.
  [[nodiscard]] bool hold(const GroupMembers& members, size_t rank, const RoundBlock& block, const SharedBytes& payload,
                          uint32_t window);

  // What this member sent of this round. Nothing of it that is older is kept, nor of another group.
  std::vector<Item> take(const GroupMembers& members, size_t rank, uint64_t round);

  void keep_only(const GroupMembers& members);
  void forget(const PeerId& peer) { held_.erase(peer); }

 private:
  struct Held {
    uint64_t group = 0, round = 0;
    std::map<std::pair<uint8_t, uint32_t>, Item> blocks;   // by phase and index
  };
  std::map<PeerId, Held> held_;
};

}  // namespace starling
