#include "gossip/exchange/group_members.h"

#include <algorithm>
#include <array>

#include "gossip/net/hash.h"
#include "kernels/check.h"

namespace starling {

std::optional<size_t> GroupMembers::rank_of_other(const PeerId& peer) const {
  const auto at = std::lower_bound(ids.begin(), ids.end(), peer);
  if (at == ids.end() || *at != peer || peer == ids[self]) return std::nullopt;
  return static_cast<size_t>(at - ids.begin());
}

uint32_t GroupMembers::first_block(size_t rank, uint64_t round) const {
  return static_cast<uint32_t>((rank + count() - round / kOwnerRounds % count()) % count());
}

std::vector<uint32_t> GroupMembers::blocks_of(size_t rank, size_t block_count, uint64_t round) const {
  std::vector<uint32_t> indices;
  for (size_t i = first_block(rank, round); i < block_count; i += count()) indices.push_back(static_cast<uint32_t>(i));
  return indices;
}

std::optional<GroupMembers> group_members(const std::vector<Participant>& sorted, const PeerId& self,
                                          const GroupBounds& bounds) {
  if (sorted.size() < bounds.min || sorted.size() > bounds.max) return std::nullopt;
  GroupMembers members;
  for (const Participant& participant : sorted) {
    STARLING_CHECK(members.ids.empty() || members.ids.back() < participant.peer);
    members.ids.push_back(participant.peer);
  }
  const auto at = std::lower_bound(members.ids.begin(), members.ids.end(), self);
  if (at == members.ids.end() || *at != self) return std::nullopt;
  members.self = static_cast<size_t>(at - members.ids.begin());
  members.group = group_id(sorted);
  return members;
}

uint64_t group_id(const std::vector<Participant>& sorted) {
  std::vector<std::byte> bytes;
  for (const Participant& participant : sorted) {
    const auto* id = reinterpret_cast<const std::byte*>(participant.peer.bytes.data());
    bytes.insert(bytes.end(), id, id + participant.peer.bytes.size());
  }
  const std::array<uint8_t, 32> digest = blake2b_256(bytes);
  uint64_t id = 0;
  for (int i = 7; i >= 0; --i) id = id << 8 | digest[static_cast<size_t>(i)];
  return id == 0 ? 1 : id;  // 0 means neighborhood on the wire
}

}  // namespace starling
