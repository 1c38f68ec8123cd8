// The round in which each member of a group was last seen, and the number of this agent's next round.
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

  // The group that this peer was last seen in; 0: it was not seen.
  uint64_t group_of(const PeerId& peer) const;

  // The newest round in which this member was seen; 0: no round of this group.
  uint64_t seen(const GroupMembers& members, size_t rank) const;

  // The upper median of the members' rounds, with `own` for this agent.
  uint64_t median(const GroupMembers& members, uint64_t own) const;

  // The number of the next round: `own`, or the median if that is later; at most one ahead of all other members.
  uint64_t next(const GroupMembers& members, uint64_t own) const;

 private:
  struct Seen { uint64_t group = 0, round = 0; };
  std::map<PeerId, Seen> seen_;
};

}  // namespace starling
