#include "gossip/updates/counted_table.h"

#include <algorithm>

#include "gossip/limits.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr uint64_t kWindowBits = 64;

template <typename Rows>
auto lower(Rows& rows, const PeerId& peer) {
  return std::lower_bound(rows.begin(), rows.end(), peer,
                          [](const CountedRow& row, const PeerId& id) { return row.peer < id; });
}

}  // namespace

const CountedRow* CountedTable::row(const PeerId& peer) const {
  const auto at = lower(rows_, peer);
  return at != rows_.end() && at->peer == peer ? &*at : nullptr;
}

namespace {

// What a window says of this seq.
Counting in_window(uint64_t newest, uint64_t window, uint64_t seq) {
  if (seq > newest) return Counting::kNot;
  if (seq == newest) return Counting::kCounted;
  const uint64_t bit = newest - 1 - seq;
  if (bit >= kWindowBits) return Counting::kUnknown;
  return (window >> bit & 1) != 0 ? Counting::kCounted : Counting::kNot;
}

}  // namespace

Counting CountedTable::counting(const PeerId& peer, uint64_t generation, uint64_t seq) const {
  const CountedRow* found = row(peer);
  if (found == nullptr || found->generation < generation) return Counting::kNot;
  if (found->generation > generation) return Counting::kUnknown;
  const Counting counting = in_window(found->newest, found->window, seq);
  if (counting != Counting::kUnknown || seq > found->far) return counting;
  return seq == found->far ? Counting::kCounted : in_window(found->before_far, found->before_window, seq);
}

bool CountedTable::may_count(const PeerId& peer, uint64_t generation, uint64_t seq) const {
  const CountedRow* found = row(peer);
  if (found == nullptr || generation > found->generation) return seq <= kSeqStepMax;
  return generation == found->generation && seq > found->newest && seq - found->newest <= kSeqStepMax;
}

bool CountedTable::counted_since(const PeerId& peer, uint64_t generation, uint64_t encoded_at) const {
  const CountedRow* found = row(peer);
  return found != nullptr && found->generation == generation && found->length > encoded_at;
}

bool CountedTable::counts_all_of(const CountedTable& other) const {
  const auto counts = [this](const CountedRow& row, uint64_t newest, uint64_t window) {
    if (newest > 0 && counting(row.peer, row.generation, newest) == Counting::kNot) return false;
    for (uint64_t bit = 0; bit < kWindowBits && bit + 1 < newest; ++bit) {
      if ((window >> bit & 1) == 0) continue;
      if (counting(row.peer, row.generation, newest - 1 - bit) == Counting::kNot) return false;
    }
    return true;
  };
  return std::all_of(other.rows_.begin(), other.rows_.end(), [&](const CountedRow& row) {
    return counts(row, row.newest, row.window) && counts(row, row.before_far, row.before_window);
  });
}

void CountedTable::count(const CountedPayload& payload, uint64_t length) {
  STARLING_CHECK(may_count(payload.peer, payload.generation, payload.seq));
  const auto at = lower(rows_, payload.peer);
  const bool known = at != rows_.end() && at->peer == payload.peer;
  if (known && at->generation == payload.generation) {
    const uint64_t step = payload.seq - at->newest;
    if (step > kUsualStepMax) at->far = payload.seq, at->before_far = at->newest, at->before_window = at->window;
    const uint64_t moved = step < kWindowBits ? at->window << step : 0;
    at->window = moved | (step <= kWindowBits ? 1ull << (step - 1) : 0);
    at->newest = payload.seq;
    at->length = length;
    return;
  }
  CountedRow fresh{.peer = payload.peer, .generation = payload.generation, .newest = payload.seq, .length = length};
  if (payload.seq > kUsualStepMax) fresh.far = payload.seq;
  if (known) {
    *at = fresh;
    return;
  }
  rows_.insert(at, fresh);
  if (rows_.size() <= kCountedRowsMax) return;
  rows_.erase(std::min_element(rows_.begin(), rows_.end(),
                               [](const CountedRow& a, const CountedRow& b) { return a.length < b.length; }));
}

}  // namespace starling
