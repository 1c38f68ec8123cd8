#include "gossip/updates/log_rounds.h"

#include <algorithm>
#include <vector>

#include "gossip/updates/options.h"

namespace starling {

uint64_t LogRounds::newest() const {
  std::vector<uint64_t> rounds;
  for (const auto& slice : slices_) rounds.push_back(slice->entry_round());
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>((rounds.size() - 1) / 2);
  std::nth_element(rounds.begin(), middle, rounds.end());
  return *middle;
}

// Members that are ahead of the others together, because those joined or restarted, would stay ahead: each is at most
// one round ahead of the other, and none waits for those behind. What they hand in goes to owners of later rounds, and
// is void when these rounds come. An entry that came since the last boundary shows that a majority goes on, and in
// which round. Without one there is no limit, so that owners rotate.
uint64_t LogRounds::limit(const RoundNumbers& numbers, const GroupMembers& members, uint64_t own) {
  uint64_t newest = 0;
  for (const auto& slice : slices_) newest = std::max(newest, slice->take_newest_round());
  return newest == 0 ? kUpdateRoundMax : std::max(newest, numbers.median(members, own - 1)) + 1;
}

void LogRounds::note_entry(uint32_t slice) {
  if (slices_[slice]->entry_round() <= heard_round_) return;
  const uint64_t newest_round = newest();
  if (newest_round <= heard_round_) return;
  heard_round_ = newest_round;
  heard_at_ = clock_.now();
}

bool LogRounds::went_on_after(uint64_t round) const {
  return round > 0 && heard_round_ > std::max(round, missed_round_);
}

}  // namespace starling
