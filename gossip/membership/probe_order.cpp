#include "gossip/membership/probe_order.h"

#include <algorithm>

namespace starling {

void ProbeOrder::insert(const PeerId& peer) {
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
