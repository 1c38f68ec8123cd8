#include "gossip/membership/member_clocks.h"

#include <algorithm>
#include <vector>

#include "gossip/limits.h"

namespace starling {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);
constexpr uint64_t kLatest = uint64_t{1} << 40;  // sums of it do not overflow

}  // namespace

int64_t MemberClocks::monotonic_s() const {
  return std::chrono::duration_cast<std::chrono::seconds>(clock_.now().time_since_epoch()).count();
}

// Kept beside the monotonic clock and not beside the wall clock, which somebody may set right at any time.
void MemberClocks::hear(const PeerId& member, uint64_t unix_s) {
  const bool counted = told_.contains(member);
  if (unix_s == 0 || (!counted && told_.size() >= kMembersMax)) return;
  told_[member] = {static_cast<int64_t>(std::min(unix_s, kLatest)) - monotonic_s(), clock_.now()};
  if (!counted) next_look_ = {};
}

void MemberClocks::forget(const PeerId& member) {
  if (told_.erase(member) > 0) next_look_ = {};
}

void MemberClocks::forget_all() {
  told_.clear();
  began_ = clock_.now();
  next_look_ = {};
}

// The median of a clock and others is the clock itself, held between the two of the others around their middle.
void MemberClocks::look() {
  const TimePoint now = clock_.now();
  if (now < next_look_) return;
  next_look_ = now + kLookEvery;
  std::erase_if(told_, [&](const auto& one) { return now - one.second.when > kCountsFor; });
  std::vector<int64_t> clocks;
  for (const auto& [member, told] : told_) clocks.push_back(told.at_zero_s);
  std::sort(clocks.begin(), clocks.end());
  const size_t half = clocks.size() / 2;
  lowest_ = half > 0 ? clocks[half - 1] : INT64_MIN;
  highest_ = half > 0 ? clocks[clocks.size() - half] : INT64_MAX;
}

uint64_t MemberClocks::now() {
  const uint64_t own = std::min(clock_.unix_seconds(), kLatest);
  if (own == 0) return 0;
  look();
  const int64_t zero = static_cast<int64_t>(own) - monotonic_s();
  return static_cast<uint64_t>(std::max<int64_t>(std::clamp(zero, lowest_, highest_) + monotonic_s(), 1));
}

uint64_t MemberClocks::earliest() {
  look();
  return lowest_ == INT64_MIN ? 0 : static_cast<uint64_t>(std::max<int64_t>(lowest_ + monotonic_s(), 1));
}

bool MemberClocks::heard(size_t others) {
  const Duration since = clock_.now() - began_;
  return since >= kPatience || (since >= kAnswer && count() >= std::clamp<size_t>(others, 1, 2));
}

size_t MemberClocks::count() {
  look();
  return told_.size();
}

int64_t MemberClocks::ahead_s() {
  look();
  if (told_.empty()) return 0;
  const int64_t zero = static_cast<int64_t>(std::min(clock_.unix_seconds(), kLatest)) - monotonic_s();
  return zero - (told_.size() == 1 ? told_.begin()->second.at_zero_s : std::clamp(zero, lowest_, highest_));
}

}  // namespace starling
