#include "gossip/updates/update_slice.h"

#include <algorithm>
#include <set>
#include <utility>

namespace starling {
namespace {

// Whether the log of this state has the entry with this hash, as far as it remembers.
bool shows(const SliceState& state, const Digest16& hash) {
  return state.head.hash == hash || std::any_of(state.recent.begin(), state.recent.end(),
                                                [&](const RecentEntry& entry) { return entry.hash == hash; });
}

}  // namespace

UpdateSlice::UpdateSlice(const Shape& shape, float first_norm_max, const UpdateCodecs& codecs, Worker& worker,
                         UpdateRefusals& refusals, std::function<void()> on_change)
    : shape_(shape),
      log_(first_norm_max, shape.value_count * sizeof(float)),
      entries_(shape.element_count, codecs, worker, refusals, [this] { advance(); }),
      refusals_(refusals),
      on_change_(std::move(on_change)) {}

bool UpdateSlice::believes(const PeerId& from, const LogHead& head, const GroupMembers& members, uint64_t round) {
  if (entry_group_ != members.group || round < entry_round_) return true;
  const LogHead& own = log_.head();
  const uint64_t entries = round - entry_round_ + kRecentEntries;
  if (head.length <= own.length + entries && head.weight <= own.weight + entries * members.count()) return true;
  claim_more_.insert(from);
  return claim_more_.size() >= witnesses_;
}

void UpdateSlice::add_memory(HeldBytes& held, UpdateMemory* memory) const {
  for (const LoggedEntry& logged : log_.entries()) memory->entries += held.add(logged.payload);
  for (const LoggedEntry& logged : backlog_.entries) memory->entries += held.add(logged.payload);
  memory->handed_in += inbox_.bytes(held);
  memory->arriving += entries_.bytes(held);
  if (collection_) memory->states += collection_->values().size() * sizeof(float);
  if (backlog_.adopted) memory->states += backlog_.adopted->values.size() * sizeof(float);
}

bool UpdateSlice::full() const {
  if (backlog_.entries.size() < kRecentEntries) return false;
  size_t bytes = 0;
  for (const LoggedEntry& logged : backlog_.entries) bytes += logged.payload.size;
  return bytes > std::max(kBacklogMin, shape_.value_count * sizeof(float));
}

void UpdateSlice::receive(const PeerId& from, const LogEntry& entry, const SharedBytes& part) {
  if (!full()) entries_.add(from, entry, part, log_);
}

// The replica takes entries one by one, so each is queued as the log takes it.
void UpdateSlice::advance() {
  while (entries_.append_next(log_)) queue_newest();
  on_change_();
}

bool UpdateSlice::append_own(const LogEntry& entry, const SharedBytes& payload, const Digest16& payload_hash,
                             double norm) {
  if (log_.append(entry, payload, payload_hash, norm) != LogStatus::kOk) return false;
  queue_newest();
  advance();  // an entry that follows it may have come first
  return true;
}

void UpdateSlice::queue_newest() {
  const LoggedEntry& newest = log_.newest();
  backlog_.entries.push_back(newest);
  entry_group_ = newest.entry.group;
  entry_round_ = newest.entry.round;
  moved_ = true;
  newest_round_ = std::max(newest_round_, entry_round_);
  inbox_.drop_void(log_);
  claims_.settle(log_.head());
  drop_unwanted();
}

bool UpdateSlice::receive(const PeerId& from, const SliceState& state, const SharedBytes& block) {
  if (!StateCollection::fits(state, shape_.value_count)) {
    refusals_.note(&UpdateRefusals::blocks, from);
    return false;
  }
  if (!wanted(state)) return false;
  if (!collection_) collection_.emplace(state, shape_.value_count);
  const bool before = collection_->complete();
  if (collection_->root() != state_root(state)) {
    // Of a second state nothing is kept: the first one is under way. But it may show that first one.
    if (shows(state, collection_->header().head.hash)) collection_->also_shown_by(from);
  } else if (!collection_->add(from, state.block, block)) {
    refusals_.note(&UpdateRefusals::blocks, from);
    return false;
  }
  if (!collection_->complete()) return false;
  if (believed(*collection_)) {
    adopt();
    return false;
  }
  doubted_ = true;
  claims_.doubt(collection_->header().head);
  on_change_();
  return !before;
}

// A state of this log repairs the replica alone: the entries after it follow again.
bool UpdateSlice::repairs(const SliceState& state) const {
  return distrusted_ && (state.head == log_.head() || log_.after(state.head));
}

bool UpdateSlice::wanted(const SliceState& state) const {
  if (repairs(state) || greater(state.head, log_.head())) return true;
  return yields_ && !log_.table().counts_all_of(CountedTable(state.table));
}

// A member that is asked while a state is collected sends blocks of that one.
void UpdateSlice::drop_unwanted() {
  if (collection_ && !wanted(collection_->header())) collection_.reset();
}

void UpdateSlice::begin_round(size_t witnesses) {
  witnesses_ = witnesses;
  yields_ = false;
  drop_unwanted();
  if (moved_) stalled_ = 0;
  stalled_ += doubted_ && !moved_;
  moved_ = doubted_ = false;
}

// One liar must not replace what a majority made. Who claims the same head shows it too. A log that counts one member
// alone is of one that began before it saw the others.
bool UpdateSlice::believed(const StateCollection& collected) const {
  const SliceState& state = collected.header();
  if (log_.table().rows().size() < 2) return true;
  if (repairs(state) || CountedTable(state.table).counts_all_of(log_.table())) return true;
  std::set<PeerId> members = collected.shown_by();
  claims_.add_holders(state.head, &members);
  return members.size() >= witnesses_ || stalled_ >= kStalledRounds;
}

void UpdateSlice::adopt() {
  const SliceState state = collection_->header();
  backlog_ = {AdoptedState{state, collection_->values()}, {}};
  if (repairs(state)) {
    backlog_.entries = log_.after(state.head).value_or(std::vector<LoggedEntry>());
  } else {
    log_.adopt(state);
  }
  collection_.reset();
  distrusted_ = yields_ = false;
  claim_more_.clear();
  ++states_adopted_;
  inbox_.drop_void(log_);
  claims_.settle(log_.head());
  advance();
}

}  // namespace starling
