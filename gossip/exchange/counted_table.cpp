#include "gossip/exchange/counted_table.h"

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

Counting CountedTable::counting(const PeerId& peer, uint64_t generation, uint64_t seq) const {
  const CountedRow* found = row(peer);
  if (found == nullptr || found->generation < generation) return Counting::kNot;
  if (found->generation > generation) return Counting::kUnknown;
  if (seq > found->newest) return Counting::kNot;
  if (seq == found->newest) return Counting::kCounted;
  const uint64_t bit = found->newest - 1 - seq;
  if (bit >= kWindowBits) return Counting::kUnknown;
  return (found->window >> bit & 1) != 0 ? Counting::kCounted : Counting::kNot;
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
  for (const CountedRow& row : other.rows_) {
    if (counting(row.peer, row.generation, row.newest) == Counting::kNot) return false;
    for (uint64_t bit = 0; bit < kWindowBits && bit + 1 < row.newest; ++bit) {
      if ((row.window >> bit & 1) == 0) continue;
      if (counting(row.peer, row.generation, row.newest - 1 - bit) == Counting::kNot) return false;
    }
  }
  return true;
}

void CountedTable::count(const CountedPayload& payload, uint64_t length) {
  STARLING_CHECK(may_count(payload.peer, payload.generation, payload.seq));
  const auto at = lower(rows_, payload.peer);
  const bool known = at != rows_.end() && at->peer == payload.peer;
  if (known && at->generation == payload.generation) {
    const uint64_t step = payload.seq - at->newest;
    const uint64_t moved = step < kWindowBits ? at->window << step : 0;
    at->window = moved | (step <= kWindowBits ? 1ull << (step - 1) : 0);
    at->newest = payload.seq;
    at->length = length;
    return;
  }
  const CountedRow fresh{payload.peer, payload.generation, payload.seq, 0, length};
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
