// The members of a group as one of them sees it, and the owner of each block in each round.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gossip/exchange/exchange.h"
#include "gossip/peer.h"

namespace starling {

struct GroupMembers {
  // Ownership rotates every kOwnerRounds rounds; otherwise a member that is always late would withhold its blocks from
  // the group forever. It does not rotate every round, because a late contribution counts only while its owner stays.
  static constexpr uint64_t kOwnerRounds = 4;

  uint64_t group = 0;
  std::vector<PeerId> ids;  // sorted; the index is the rank
  size_t self = 0;          // own rank

  size_t count() const { return ids.size(); }
  size_t owner(uint32_t index, uint64_t round) const { return (index + round / kOwnerRounds) % count(); }
  std::optional<size_t> rank_of_other(const PeerId& peer) const;
  uint32_t first_block(size_t rank, uint64_t round) const;  // the member owns this one and every count()th after it
  std::vector<uint32_t> blocks_of(size_t rank, size_t block_count, uint64_t round) const;
};

// How many members an exchange in a group needs and bears.
struct GroupBounds { size_t min = 0, max = 0; };

// nullopt: `self` is not among them, or the group is too small or too large.
std::optional<GroupMembers> group_members(const std::vector<Participant>& sorted, const PeerId& self,
                                          const GroupBounds& bounds);

// First 8 bytes of the BLAKE2b-256 of the sorted ids, never 0.
uint64_t group_id(const std::vector<Participant>& sorted);

}  // namespace starling
