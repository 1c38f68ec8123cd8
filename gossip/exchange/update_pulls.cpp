#include "gossip/exchange/update_pulls.h"

#include <algorithm>

#include "gossip/exchange/bitmap.h"

namespace starling {

void UpdatePulls::ask(UpdateSlice& slice, const PeerId& from) {
  if (clock_.now() >= slices_[slice.shape().number].next_at) send(slice, from, slice.log().head());
}

void UpdatePulls::ask_anyone(UpdateSlice& slice) {
  if (members_.count() < 2) return;
  const size_t step = 1 + rng_.below(static_cast<uint32_t>(members_.count() - 1));
  send(slice, members_.ids[(members_.self + step) % members_.count()], slice.log().head());
}

void UpdatePulls::send(UpdateSlice& slice, const PeerId& to, const LogHead& head) {
  const uint32_t number = slice.shape().number;
  LogPull pull{number, head, {}, {}, members_.group, round_};
  if (const StateCollection* state = slice.collecting()) {
    pull.root = state->root();
    pull.missing = state->missing();
    if (state->complete()) set_bit(pull.missing, 0);   // whoever sends any block shows the state
  }
  slices_[number].next_at = clock_.now() + interval_;
  ++sent_;
  outbox_.send(to, pull);
}

void UpdatePulls::tick(UpdateSlices& slices) {
  for (auto& slice : slices) {
    Slice& asked = slices_[slice->shape().number];
    const StateCollection* state = slice->collecting();
    if (state == nullptr || asked.next_at > clock_.now()) continue;
    const size_t missing = count_bits(state->missing());
    asked.idle = missing == asked.missing ? asked.idle + 1 : 0;
    asked.missing = missing;
    if (asked.idle > kIdleMax || state->shown_by().empty()) {
      slice->stop_collecting();
      asked.idle = 0;
      continue;
    }
    if (state->complete()) {
      ask_anyone(*slice);
      continue;
    }
    auto donor = state->shown_by().begin();
    std::advance(donor, rng_.below(static_cast<uint32_t>(state->shown_by().size())));
    send(*slice, *donor, slice->log().head());
  }
}

TimePoint UpdatePulls::next_deadline(const UpdateSlices& slices) const {
  TimePoint next = TimePoint::max();
  for (const auto& slice : slices) {
    if (slice->collecting() != nullptr) next = std::min(next, slices_[slice->shape().number].next_at);
  }
  return next;
}

}  // namespace starling
