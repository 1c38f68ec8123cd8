#include "gossip/exchange/update_slice.h"

#include <algorithm>
#include <utility>

namespace starling {

UpdateSlice::UpdateSlice(const Shape& shape, float first_norm_max, const UpdateCodecs& codecs, Worker& worker,
                         std::function<void()> on_change)
    : shape_(shape), log_(first_norm_max), entries_(shape.element_count, codecs, worker, [this] { advance(); }),
      on_change_(std::move(on_change)) {}

UpdateSliceTally UpdateSlice::tally() const {
  UpdateSliceTally tally = tally_;
  tally.entries_refused += entries_.refused();
  return tally;
}

void UpdateSlice::receive(const LogEntry& entry, const SharedBytes& part) {
  entries_.add(entry, part, log_);
}

// The replica takes entries one by one, so each is queued as the log takes it.
void UpdateSlice::advance() {
  size_t refused = 0;
  while (entries_.append_next(log_, &refused)) queue_newest();
  tally_.entries_refused += refused;
  on_change_();
}

bool UpdateSlice::append_own(const LogEntry& entry, const SharedBytes& payload, const Digest16& payload_hash,
                             double norm) {
  if (log_.append(entry, payload, payload_hash, norm) != LogStatus::kOk) return false;
  queue_newest();
  advance();   // an entry that follows it may have come first
  return true;
}

void UpdateSlice::queue_newest() {
  const LoggedEntry& newest = log_.newest();
  backlog_.entries.push_back(newest);
  entry_group_ = newest.entry.group;
  entry_round_ = newest.entry.round;
  newest_round_ = std::max(newest_round_, entry_round_);
  inbox_.drop_void(log_);
  claims_.settle(log_.head());
}

void UpdateSlice::receive(const PeerId& from, const SliceState& state, const SharedBytes& block) {
  if (!StateCollection::fits(state, shape_.value_count)) {
    ++tally_.blocks_refused;
    return;
  }
  // A state of this log repairs the replica alone: the entries after it follow again.
  const bool repair = distrusted_ && (state.head == log_.head() || log_.after(state.head));
  if (!repair && !greater(state.head, log_.head())) return;
  if (!collection_) {
    collection_.emplace(state, shape_.value_count);
  } else if (collection_->root() != state_root(state)) {
    // Of a second state nothing is kept: the first one is under way, and this donor holds it or one that continues it.
    return;
  }
  if (!collection_->add(from, state.block, block)) {
    ++tally_.blocks_refused;
    return;
  }
  if (!collection_->complete()) return;
  backlog_ = {AdoptedState{state, collection_->values()}, {}};
  if (repair) {
    backlog_.entries = log_.after(state.head).value_or(std::vector<LoggedEntry>());
  } else {
    log_.adopt(state);
  }
  collection_.reset();
  distrusted_ = false;
  ++tally_.states_adopted;
  inbox_.drop_void(log_);
  claims_.settle(log_.head());
  advance();
}

}  // namespace starling
