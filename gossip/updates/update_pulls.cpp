#include "gossip/updates/update_pulls.h"

#include <algorithm>
#include <utility>

#include "gossip/exchange/bitmap.h"

namespace starling {

void UpdatePulls::ask(UpdateSlice& slice, const PeerId& from) {
  Asked& asked = slices_[slice.shape().number];
  if (clock_.now() >= asked.next_at && !asked.waiting && patience() > 1) {
    asked.next_at = clock_.now() + from_seconds((patience() - 1) * seconds(interval_));
  }
  if (clock_.now() >= asked.next_at) return send(slice, from, slice.asks_after());
  const bool lacks = asked.waiting && slice.claims().lacks_of(*asked.waiting, slice.log().head());
  if (!lacks) asked.waiting = from;
}

void UpdatePulls::tell_all(const UpdateSlice& slice) {
  Asked& asked = slices_[slice.shape().number];
  if (std::exchange(asked.told_in, round_) == round_) return;
  for (size_t rank = 0; rank < members_.count(); ++rank) {
    if (rank != members_.self) tell(slice, members_.ids[rank]);
  }
}

void UpdatePulls::tell(const UpdateSlice& slice, const PeerId& to) {
  outbox_.send(to, LogPull{slice.shape().number, slice.log().head(), {}, {}, members_.group, round_});
}

void UpdatePulls::came(uint32_t slice, const PeerId& from, uint64_t length, bool here) {
  Asked& asked = slices_[slice];
  if (!asked.whom || length != asked.length) return;
  if (here || asked.came) {
    doubt_ = std::min(kCameTwice * doubt_, kDoubtMax);
    asked.whom.reset();
  } else {
    if (from == *asked.whom) doubt_ = std::max(kHelped * doubt_, 1.0);
    asked.came = true;
  }
}

void UpdatePulls::ask_anyone(UpdateSlice& slice) {
  if (members_.count() < 2) return;
  const size_t step = 1 + rng_.below(static_cast<uint32_t>(members_.count() - 1));
  send(slice, members_.ids[(members_.self + step) % members_.count()], slice.asks_after());
}

void UpdatePulls::ask_for_witnesses(UpdateSlice& slice) {
  std::vector<PeerId> others;
  const std::set<PeerId>& shown_by = slice.collecting()->shown_by();
  for (size_t rank = 0; rank < members_.count(); ++rank) {
    if (rank != members_.self && !shown_by.contains(members_.ids[rank])) others.push_back(members_.ids[rank]);
  }
  rng_.shuffle(others);
  for (size_t i = 0; i < std::min(others.size(), kWitnessesAsked); ++i) send(slice, others[i], slice.asks_after());
}

void UpdatePulls::send(UpdateSlice& slice, const PeerId& to, const LogHead& head) {
  const uint32_t number = slice.shape().number;
  LogPull pull{number, head, {}, {}, members_.group, round_};
  if (const StateCollection* state = slice.collecting()) {
    pull.root = state->root();
    pull.missing = state->missing();
    if (state->complete()) set_bit(pull.missing, 0);  // whoever sends any block shows the state
  }
  Asked& asked = slices_[number];
  asked.next_at = clock_.now() + interval_;
  const uint64_t length = head.length + 1;
  asked.came = asked.came && asked.whom && asked.length == length;
  asked.whom = to;
  asked.length = length;
  ++sent_;
  outbox_.send(to, pull);
}

void UpdatePulls::tick(UpdateSlices& slices) {
  for (auto& slice : slices) {
    Asked& asked = slices_[slice->shape().number];
    if (asked.next_at > clock_.now()) continue;
    const std::optional<PeerId> waiting = std::exchange(asked.waiting, std::nullopt);
    if (slice->collecting() != nullptr) {
      go_on(*slice, asked, waiting);
    } else if (waiting && slice->claims().lacks_of(*waiting, slice->log().head())) {
      send(*slice, *waiting, slice->asks_after());
    }
  }
}

// Who waits to be asked claimed a greater log meanwhile: perhaps this one, or one that continues it.
void UpdatePulls::go_on(UpdateSlice& slice, Asked& asked, const std::optional<PeerId>& waiting) {
  const StateCollection& state = *slice.collecting();
  const size_t missing = count_bits(state.missing());
  asked.idle = missing == asked.missing ? asked.idle + 1 : 0;
  asked.missing = missing;
  if (asked.idle > kIdleMax || state.shown_by().empty()) {
    slice.stop_collecting();
    asked.idle = 0;
    if (waiting) send(slice, *waiting, slice.asks_after());
  } else if (state.complete()) {
    ask_for_witnesses(slice);
  } else {
    auto donor = state.shown_by().begin();
    std::advance(donor, rng_.below(static_cast<uint32_t>(state.shown_by().size())));
    send(slice, *donor, slice.asks_after());
  }
}

TimePoint UpdatePulls::next_deadline(const UpdateSlices& slices) const {
  TimePoint next = TimePoint::max();
  for (const auto& slice : slices) {
    const Asked& asked = slices_[slice->shape().number];
    if (slice->collecting() != nullptr || asked.waiting) next = std::min(next, asked.next_at);
  }
  return next;
}

}  // namespace starling
