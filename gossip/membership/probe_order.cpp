#include "gossip/membership/probe_order.h"

#include <algorithm>
#include <set>

#include "gossip/limits.h"

namespace starling {
namespace {

constexpr size_t kOrderMax = 2 * kMembersMax;

}  // namespace

// Ids that come and go within a lap, or are suspected again and again, would make it ever longer.
void ProbeOrder::make_room() {
  if (order_.size() < kOrderMax) return;
  order_.erase(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(position_));
  position_ = 0;
  std::set<PeerId> kept;
  std::erase_if(order_, [&](const PeerId& peer) { return !table_.is_live(peer) || !kept.insert(peer).second; });
}

void ProbeOrder::insert(const PeerId& peer) {
  make_room();
  if (std::find(order_.begin(), order_.end(), peer) != order_.end()) return;
  const size_t place = context_.rng.below(static_cast<uint32_t>(order_.size() + 1));
  order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(place), peer);
  if (place < position_) ++position_;
}

// A few members probe a suspect at once, to confirm the suspicion or to tell the suspect. Not all members do: in a
// large swarm a thousand pings would reach it in the same second.
void ProbeOrder::probe_soon(const PeerId& peer) {
  constexpr double kProbersMean = 8;
  if (!context_.rng.chance(kProbersMean / static_cast<double>(table_.member_count()))) return;
  make_room();
  order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(std::min(position_, order_.size())), peer);
}

std::optional<PeerId> ProbeOrder::next() {
  for (int lap = 0; lap < 2; ++lap) {
    while (position_ < order_.size()) {
      const PeerId peer = order_[position_++];
      if (table_.is_live(peer)) return peer;
    }
    order_.clear();
    for (const auto& [peer, entry] : table_.rows()) {
      if (entry.member.state <= MemberState::kSuspect) order_.push_back(peer);
    }
    context_.rng.shuffle(order_);
    position_ = 0;
  }
  return std::nullopt;
}

}  // namespace starling
