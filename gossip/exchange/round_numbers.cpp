#include "gossip/exchange/round_numbers.h"

#include <algorithm>
#include <vector>

namespace starling {

// A round number one lower is an older frame that was overtaken. A much lower one is a member that fell back.
void RoundNumbers::note(const PeerId& from, uint64_t group, uint64_t round) {
  Seen& newest = seen_[from];
  if (newest.group != group || newest.round != round + 1) newest = {group, round};
}

void RoundNumbers::keep_only(const GroupMembers& members) {
  std::erase_if(seen_, [&](const auto& entry) { return !members.rank_of_other(entry.first); });
}

uint64_t RoundNumbers::group_of(const PeerId& peer) const {
  const auto it = seen_.find(peer);
  return it != seen_.end() ? it->second.group : 0;
}

uint64_t RoundNumbers::seen(const GroupMembers& members, size_t rank) const {
  const auto it = seen_.find(members.ids[rank]);
  return it != seen_.end() && it->second.group == members.group ? it->second.round : 0;
}

uint64_t RoundNumbers::median(const GroupMembers& members, uint64_t own) const {
  std::vector<uint64_t> rounds;
  for (size_t rank = 0; rank < members.count(); ++rank) {
    rounds.push_back(rank == members.self ? own : seen(members, rank));
  }
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::nth_element(rounds.begin(), middle, rounds.end());
  return *middle;
}

// An agent behind the median jumps to it. An agent more than one round ahead of all others falls back, because no
// other member would ever be in the same round; it may be faster, or may have counted in another group.
uint64_t RoundNumbers::next(const GroupMembers& members, uint64_t own) const {
  uint64_t newest = 0;
  for (size_t rank = 0; rank < members.count(); ++rank) {
    if (rank != members.self) newest = std::max(newest, seen(members, rank));
  }
  const uint64_t number = std::max(own, median(members, own));
  return newest > 0 ? std::min(number, newest + 1) : number;
}

}  // namespace starling
