#include "gossip/group/early_round_blocks.h"

namespace starling {

bool EarlyRoundBlocks::hold(const GroupMembers& members, size_t rank, const RoundBlock& block,
                            const SharedBytes& payload, uint32_t window) {
  const bool contribution = block.phase == 0;
  if (members.owner(block.index, block.round) != (contribution ? members.self : rank)) return false;
  if (block.index / members.count() >= window) return false;  // its position in the stream is beyond the first credit

  // A round number one lower is an older frame that was overtaken. A much lower one is a member that fell back.
  Held& held = held_[members.ids[rank]];
  const bool fell_back = held.round > block.round + 1;
  if (held.group != block.group || held.round < block.round || fell_back) held = Held{block.group, block.round, {}};
  if (held.round > block.round) return false;
  return held.blocks.insert_or_assign({block.phase, block.index}, Item(block, payload)).second;
}

std::vector<EarlyRoundBlocks::Item> EarlyRoundBlocks::take(const GroupMembers& members, size_t rank, uint64_t round) {
  std::vector<Item> items;
  const auto it = held_.find(members.ids[rank]);
  if (it == held_.end()) return items;
  const bool of_this_group = it->second.group == members.group;
  if (of_this_group && it->second.round > round) return items;  // still of a future round
  if (of_this_group && it->second.round == round) {
    for (auto& [key, item] : it->second.blocks) items.push_back(std::move(item));
  }
  held_.erase(it);
  return items;
}

void EarlyRoundBlocks::keep_only(const GroupMembers& members) {
  std::erase_if(held_, [&](const auto& entry) { return !members.rank_of_other(entry.first); });
}

}  // namespace starling
