// In which round of a group each of its members was last seen, and which number this agent's next round gets.
#pragma once

#include <cstdint>
#include <map>

#include "gossip/exchange/group_members.h"

namespace starling {

class RoundNumbers {
 public:
  void note(const PeerId& from, uint64_t group, uint64_t round);
  void keep_only(const GroupMembers& members);
  void forget(const PeerId& peer) { seen_.erase(peer); }

  // The newest round that this member was seen in; 0: none of this group.
  uint64_t seen(const GroupMembers& members, size_t rank) const;

  // The upper median over the members, with `own` for this agent: of two, the other one's if that is ahead.
  uint64_t median(const GroupMembers& members, uint64_t own) const;

  // `own`, unless the others are elsewhere.
  uint64_t next(const GroupMembers& members, uint64_t own) const;

 private:
  struct Seen {
    uint64_t group = 0, round = 0;
  };
  std::map<PeerId, Seen> seen_;
};

}  // namespace starling
