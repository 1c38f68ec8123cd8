#include "gossip/updates/update_round.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "gossip/updates/update_parts.h"
#include "kernels/check.h"

namespace starling {
namespace {

std::vector<SharedBytes> cut(const SharedBytes& payload) {
  std::vector<SharedBytes> parts;
  for (uint32_t part = 0; part < parts_of(payload.size); ++part) parts.push_back(part_of(payload, part));
  return parts;
}

}  // namespace

UpdateRound::UpdateRound(const UpdateRoundOptions& options, const Clock& clock, Outbox& outbox,
                         const RoundNumbers& numbers)
    : options_(options),
      clock_(clock),
      outbox_(outbox),
      wait_(options.deadline_min, options.deadline_max, 2 * options.deadline_max, clock, numbers),
      streams_(options.part_bytes, outbox,
               [this](size_t rank, uint8_t phase, uint32_t index, const SharedBytes& part) {
                 send(rank, phase, index, part);
               }),
      bundles_(outbox) {
  uint32_t first = 0;
  for (uint32_t i = 0; i < options.parts.size(); ++i) {
    first_.push_back(first);
    first += options.parts[place(i)];
  }
  first_.push_back(first);
  STARLING_CHECK(first <= kBlocksMax);
}

void UpdateRound::begin(const GroupMembers& members, uint64_t number, double mass,
                        const std::vector<std::optional<SentPayload>>& handed_in, const std::vector<LogHead>& heads,
                        uint32_t audited, const Digest16& audit, bool open) {
  STARLING_CHECK(ended_);
  members_ = members;
  number_ = number;
  mass_ = mass;
  heads_ = heads;
  audited_ = audited;
  audit_ = audit;
  ended_ = false;
  open_ = open;
  waits_for_.assign(members.count(), true);
  went_on_.assign(members.count(), false);
  entries_.assign(options_.parts.size(), {});
  contributions_.assign(options_.parts.size(), {});
  wait_.begin(members, number);
  waits_.begin(members.count(), [this](uint8_t phase, Duration after) { wait_.waited(phase, after); });
  streams_.begin(
      members, number, [this](size_t rank) { return blocks_of(rank); }, clock_.now(),
      wait_.first_wait() / kCreditRepeats);
  made_.clear();
  handed_in_all_ = 0;
  hold();
  const size_t next = (members.self + 1) % members.count(), count = handed_in.size();
  uint32_t first = 0;
  while (first + 1 < count && members.owner(first, number) != next) ++first;
  for (size_t i = 0; i < count; ++i) {  // in the order of owners from the next on: as send_entry() does
    const auto slice = static_cast<uint32_t>((first + i) % count);
    if (handed_in[slice]) submit(slice, *handed_in[slice]);
  }
  release();
  if (!open) announce();
  for (size_t rank = 0; rank < members.count(); ++rank) take_early(rank);
}

void UpdateRound::close(const std::vector<std::optional<SentPayload>>& handed_in, const std::vector<LogHead>& heads,
                        const Digest16& audit) {
  STARLING_CHECK(open_);
  open_ = false;
  heads_ = heads;
  audit_ = audit;
  wait_.begin_again();
  hold();
  std::vector<uint32_t> slices;
  for (uint32_t i = 0; i < handed_in.size(); ++i) {
    if (handed_in[place(i)]) slices.push_back(place(i));
  }
  for (const size_t i : in_turn(slices)) submit(slices[i], *handed_in[slices[i]]);
  release();
  announce();
}

std::vector<size_t> UpdateRound::in_turn(std::span<const uint32_t> slices) const {
  std::vector<size_t> order(slices.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t i) {
    return (members_.self + members_.count() - 1 - members_.owner(slices[i], number_)) % members_.count();
  });
  return order;
}

void UpdateRound::submit(uint32_t slice, const SentPayload& payload) {
  contributions_[slice] = {members_.group,
                           number_,
                           slice,
                           payload.seq,
                           payload.length,
                           heads_[slice],
                           mass_,
                           payload.codec,
                           0,
                           parts_of(payload.bytes.size),
                           slice == audited_ ? audit_ : Digest16{}};
  const size_t rank = members_.owner(slice, number_);
  if (rank != members_.self) give(rank, 0, slice, cut(payload.bytes));
}

std::vector<uint32_t> UpdateRound::blocks_of(size_t rank) const {
  std::vector<uint32_t> indices;
  for (uint32_t at = 0; at < options_.parts.size(); ++at) {
    if (members_.owner(place(at), number_) != rank) continue;
    for (uint32_t i = first_[at]; i < first_[at + 1]; ++i) indices.push_back(i);
  }
  return indices;
}

// ---- out ----

// Contributions tell the owners which round this member is in; a credit of 0 tells it to all others.
void UpdateRound::announce() {
  std::vector<bool> told(members_.count(), false);
  told[members_.self] = true;
  for (uint32_t slice = 0; slice < contributions_.size(); ++slice) {
    if (contributions_[slice].round == number_) told[members_.owner(slice, number_)] = true;
  }
  for (size_t rank = 0; rank < told.size(); ++rank) {
    if (!told[rank]) outbox_.send(members_.ids[rank], RoundCredit{members_.group, number_, 0, 0});
  }
}

void UpdateRound::give(size_t rank, uint8_t phase, uint32_t slice, const std::vector<SharedBytes>& parts) {
  for (uint32_t part = 0; part < parts.size(); ++part) streams_.give(rank, phase, first_of(slice) + part, parts[part]);
  streams_.pump(rank, phase);
}

void UpdateRound::send(size_t rank, uint8_t phase, uint32_t index, const SharedBytes& part) {
  const auto after = std::upper_bound(first_.begin(), first_.end(), index);
  const uint32_t slice = place(static_cast<uint32_t>(after - first_.begin()) - 1);
  if (phase == 0) {
    Contribution frame = contributions_[slice];
    frame.part = index - first_of(slice);
    send(rank, frame, part);
  } else {
    LogEntry frame = entries_[slice];
    frame.part = index - first_of(slice);
    send(rank, frame, part);
  }
}

template <class UpdateMessage>
void UpdateRound::send(size_t rank, const UpdateMessage& frame, const SharedBytes& part) {
  ++frames_sent_;
  if (bundles_.holds() && frame.parts == 1) return bundles_.add(members_.ids[rank], buckets_[frame.slice], frame, part);
  outbox_.send(members_.ids[rank], frame, part);
}

void UpdateRound::entry_made(const LogEntry& entry, const SharedBytes& payload) {
  if (buckets_.empty()) return send_entry(entry, payload);
  made_.emplace_back(entry, payload);
}

void UpdateRound::send_made(const std::function<bool(uint32_t slice)>& is_being_merged) {
  if (made_.empty()) return;
  std::set<uint32_t> waiting;  // buckets
  for (uint32_t slice = 0; slice < buckets_.size(); ++slice) {
    if (is_being_merged(slice)) waiting.insert(buckets_[slice]);
  }
  hold();
  for (const auto& [entry, payload] : made_) {
    if (!waiting.contains(buckets_[entry.slice])) send_entry(entry, payload);
  }
  release();
  std::erase_if(made_, [&](const auto& made) { return !waiting.contains(buckets_[made.first.slice]); });
}

// Each member begins with the one after itself; otherwise all would send to the first member first.
void UpdateRound::send_entry(const LogEntry& entry, const SharedBytes& payload) {
  entries_[entry.slice] = entry;
  entries_[entry.slice].parts = parts_of(payload.size);
  std::vector<SharedBytes> parts = cut(payload);
  for (SharedBytes& part : parts) {
    if (!part.checksum) part.checksum = xxh3_64(part.span());  // once for all members
  }
  for (size_t i = 1; i < members_.count(); ++i) {
    const size_t rank = (members_.self + i) % members_.count();
    if (!streams_.dead(rank)) give(rank, 1, entry.slice, parts);
  }
}

// Who is waited for no longer is ahead, or silent, and may never give credit.
std::optional<TimePoint> UpdateRound::serving_until() const {
  if (!ended_ || number_ == 0 || wait_.second_at() <= clock_.now()) return std::nullopt;
  for (size_t rank = 0; rank < members_.count(); ++rank) {
    if (rank != members_.self && waits_for_[rank] && !streams_.drained(rank)) return wait_.second_at();
  }
  return std::nullopt;
}

// ---- in ----

void UpdateRound::note_arrival(const PeerId& from, uint64_t group, uint64_t round, uint8_t phase, uint32_t slice,
                               uint32_t part, uint32_t parts, size_t bytes) {
  const uint32_t index = first_of(slice) + part;
  const Arrival arrival{phase, index, first_of(slice) + parts, first_[place(slice) + 1], bytes};
  if (index >= first_[place(slice) + 1]) return;
  const std::optional<size_t> rank =
      number_ > 0 && group == members_.group ? members_.rank_of_other(from) : std::nullopt;
  if (rank && round == number_) return arrived(*rank, arrival);
  if (rank && round + 1 == number_) return arrived_late(*rank, group, round, arrival);
  if (rank && round < number_) return;
  Early& early = early_[from];  // a round that this member has not begun
  if (early.group != group || early.round != round) early = {group, round, {}};
  if (early.blocks.size() < kEarlyMax) early.blocks.push_back(arrival);
}

// Credits are for places, so those that stay empty are passed as if their parts had come: else the credits would end
// before the slices after it.
void UpdateRound::arrived(size_t rank, const Arrival& part) {
  if (!streams_.arrived(rank, part.phase, part.index, part.bytes)) return;
  for (uint32_t none = part.none_from; none < part.none_to; ++none) streams_.pass(rank, part.phase, none);
  const Duration after = open_ ? Duration::zero() : wait_.elapsed();
  const bool last = !options_.last_first || streams_.complete(rank, part.phase);
  if (waits_.came(rank, part.phase, after, last)) wait_.waited(part.phase, after);
  if (options_.last_first && part.phase == 0 && streams_.complete(rank, 0)) handed_in_all();
  if (!ended_) streams_.credit_more(rank, part.phase);
}

// Deadlines are learned from what came before, other slices and other steps: who is last in this round may be later
// than all of that, though most have only just come.
void UpdateRound::handed_in_all() {
  const size_t others = members_.count() - 1;
  if (++handed_in_all_ == others / 2 + 1 && !open_) wait_.most_came();
}

void UpdateRound::arrived_late(size_t rank, uint64_t group, uint64_t round, const Arrival& part) {
  const RoundBlock block{.group = group, .round = round, .phase = part.phase, .index = part.index};
  if (!streams_.arrived_late(rank, block, {nullptr, nullptr, part.bytes})) return;
  const Duration after = wait_.elapsed_before();
  const bool last = !options_.last_first || streams_.complete_before(rank, part.phase);
  if (waits_.came_late(rank, part.phase, after, last)) wait_.waited(part.phase, after);
}

void UpdateRound::take_early(size_t rank) {
  const auto at = early_.find(members_.ids[rank]);
  if (at == early_.end()) return;
  const Early& early = at->second;
  const bool now = early.group == members_.group && early.round == number_;
  if (early.group == members_.group && early.round > number_) return;
  if (now) {
    for (const Arrival& part : early.blocks) arrived(rank, part);
  }
  early_.erase(at);
}

// ---- waiting ----

void UpdateRound::stop_waiting_for_those_ahead() {
  for (size_t rank : wait_.ahead()) went_on(rank);
}

void UpdateRound::stop_waiting_for_the_silent() {
  for (size_t rank : wait_.silent(options_.parts.size())) stop_waiting(rank);
}

void UpdateRound::forget(const PeerId& peer) {
  early_.erase(peer);
  const std::optional<size_t> rank = number_ > 0 ? members_.rank_of_other(peer) : std::nullopt;
  if (!rank || streams_.dead(*rank)) return;
  streams_.mark_dead(*rank);
  stop_waiting(*rank);
}

void UpdateRound::lost(const PeerId& peer) {
  const std::optional<size_t> rank = number_ > 0 ? members_.rank_of_other(peer) : std::nullopt;
  if (rank) stop_waiting(*rank);
}

void UpdateRound::tick_credits() {
  streams_.repeat_credits(clock_.now(), wait_.first_wait() / kCreditRepeats, !ended_, wait_.first_over());
}

TimePoint UpdateRound::next_deadline() const {
  if (ended_) return TimePoint::max();
  return open_ ? streams_.credits_repeat_at() : std::min(streams_.credits_repeat_at(), wait_.next());
}

}  // namespace starling
