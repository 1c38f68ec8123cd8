#include "gossip/exchange/group.h"

#include <algorithm>

#include "gossip/exchange/group_impl.h"
#include "gossip/exchange/weight.h"
#include "gossip/net/hash.h"
#include "kernels/check.h"

namespace starling {

uint64_t group_id(const std::vector<Participant>& sorted) {
  std::vector<std::byte> bytes;
  for (const Participant& participant : sorted) {
    const auto* id = reinterpret_cast<const std::byte*>(participant.peer.bytes.data());
    bytes.insert(bytes.end(), id, id + participant.peer.bytes.size());
  }
  const std::array<uint8_t, 32> digest = blake2b_256(bytes);
  uint64_t id = 0;
  for (int i = 7; i >= 0; --i) id = id << 8 | digest[static_cast<size_t>(i)];
  return id == 0 ? 1 : id;   // 0 means neighborhood on the wire
}

Group::Impl::Impl(const GroupOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
                  const Clock& clock, Outbox& outbox, Company& company)
    : options(options), layout(layout), codec(codec), worker(worker), clock(clock), outbox(outbox), company(company),
      deadlines{AdaptiveDeadline(options.deadline_min, options.deadline_max),
                AdaptiveDeadline(options.deadline_min, options.deadline_max)} {
  STARLING_CHECK(!layout.blocks.empty() && layout.blocks.size() <= kBlocksMax);
  STARLING_CHECK(options.deadline_min.count() > 0 && options.deadline_min <= options.deadline_max);
  STARLING_CHECK(codec.linear());
  for (const Block& block : layout.blocks) {
    payload_bytes_max.push_back(codec.payload_bytes_max(block.element_count));
    largest_payload = std::max(largest_payload, payload_bytes_max.back());
  }
}

// ---- the list ----

std::optional<size_t> Group::Impl::Roster::rank_of_other(const PeerId& peer) const {
  const auto at = std::lower_bound(members.begin(), members.end(), peer);
  if (at == members.end() || *at != peer || peer == members[self]) return std::nullopt;
  return static_cast<size_t>(at - members.begin());
}

uint32_t Group::Impl::Roster::first_block(size_t rank, uint64_t round) const {
  return static_cast<uint32_t>((rank + count() - round / kTenure % count()) % count());
}

std::vector<uint32_t> Group::Impl::Roster::blocks_of(size_t rank, size_t block_count, uint64_t round) const {
  std::vector<uint32_t> indices;
  for (size_t i = first_block(rank, round); i < block_count; i += count()) indices.push_back(static_cast<uint32_t>(i));
  return indices;
}

std::optional<Group::Impl::Roster> Group::Impl::make_roster() const {
  const std::vector<Participant> sorted = company.group();
  if (sorted.size() < 2 || sorted.size() > kGroupMax) return std::nullopt;
  Roster roster;
  for (const Participant& participant : sorted) {
    STARLING_CHECK(roster.members.empty() || roster.members.back() < participant.peer);
    roster.members.push_back(participant.peer);
  }
  const auto at = std::lower_bound(roster.members.begin(), roster.members.end(), options.self);
  if (at == roster.members.end() || *at != options.self) return std::nullopt;
  roster.self = static_cast<size_t>(at - roster.members.begin());
  roster.group = group_id(sorted);
  return roster;
}

// ---- a round begins ----

void Group::Impl::publish(std::shared_ptr<const Snapshot> next) {
  if (next != nullptr) {
    STARLING_CHECK(next->blocks.size() == layout.blocks.size());
    STARLING_CHECK(mass_is_sane(next->mass));
  }
  snapshot = std::move(next);   // an open round goes on with the one it began with
}

bool Group::Impl::begin() {
  if (snapshot == nullptr || (round && !round->ended)) return false;
  std::optional<Roster> roster = make_roster();
  if (!roster) return false;
  const uint64_t number = next_number(*roster);
  if (round) retire();

  const auto stays = [&](const PeerId& peer) { return roster->rank_of_other(peer).has_value(); };
  std::erase_if(seen, [&](const auto& entry) { return !stays(entry.first); });
  std::erase_if(early, [&](const auto& entry) { return !stays(entry.first); });
  const bool same_group = previous && previous->roster.group == roster->group;   // else blocks changed owners
  std::erase_if(late, [&](const auto& entry) { return !same_group || entry.second.round + 1 != number; });

  open_round(std::move(*roster), number);
  ++counters.rounds;
  give_contributions();
  take_early();
  stop_waiting_for_those_ahead();
  stop_waiting_for_the_silent();
  return true;
}

// The newest round that this member was seen in; 0: none with this list.
uint64_t Group::Impl::seen_round(const Roster& roster, size_t rank) const {
  const auto it = seen.find(roster.members[rank]);
  return it != seen.end() && it->second.group == roster.group ? it->second.round : 0;
}

// The upper median: of two, the other one's if that is ahead.
uint64_t Group::Impl::median_round(const Roster& roster, uint64_t own) const {
  std::vector<uint64_t> rounds;
  for (size_t rank = 0; rank < roster.count(); ++rank) {
    rounds.push_back(rank == roster.self ? own : seen_round(roster, rank));
  }
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::nth_element(rounds.begin(), middle, rounds.end());
  return *middle;
}

// Behind the median: jumps to it. More than one ahead of all others (a faster agent, or one that counted elsewhere):
// falls back, or nobody would ever be in a round with it.
uint64_t Group::Impl::next_number(const Roster& roster) const {
  // The agent's own count only to begin with: with overlap it also counts rounds without an exchange.
  const uint64_t own = round ? round->number + 1 : std::clamp<uint64_t>(snapshot->round, 1, kRoundMax);
  uint64_t newest = 0;
  for (size_t rank = 0; rank < roster.count(); ++rank) {
    if (rank != roster.self) newest = std::max(newest, seen_round(roster, rank));
  }
  const uint64_t number = std::max(own, median_round(roster, own));
  return newest > 0 ? std::min(number, newest + 1) : number;
}

void Group::Impl::open_round(Roster roster, uint64_t number) {
  const size_t n = roster.count(), block_count = layout.blocks.size();
  Round& r = round.emplace();
  r.number = number;
  r.own = snapshot;
  r.window = stream_window(largest_payload * (n - 1));   // all streams towards one receiver share its credit
  r.begun_at = clock.now();
  r.first_at = r.begun_at + deadlines[0].current();
  r.second_at = r.first_at + deadlines[1].current();
  const std::vector<uint32_t> own_blocks = roster.blocks_of(roster.self, block_count, number);
  bool credits_needed = false;
  r.links.resize(n);
  for (size_t rank = 0; rank < n; ++rank) {
    if (rank == roster.self) continue;
    const std::vector<uint32_t> their_blocks = roster.blocks_of(rank, block_count, number);
    r.links[rank].in = {InStream(own_blocks, r.window), InStream(their_blocks, r.window)};
    r.links[rank].out = {OutStream(their_blocks, r.window), OutStream(own_blocks, r.window)};
    r.due[0] += own_blocks.size();
    r.due[1] += their_blocks.size();
    credits_needed = credits_needed || std::max(own_blocks.size(), their_blocks.size()) > r.window;
  }
  if (credits_needed) r.credit_repeat_at = r.begun_at + (r.first_at - r.begun_at) / kCreditRepeats;
  r.owned.resize(own_blocks.size());
  for (Owned& owned : r.owned) {
    owned.from.resize(n);
    owned.waits_for = n - 1;
  }
  r.averages.resize(block_count);
  r.unresolved = block_count;
  r.roster = std::move(roster);
}

// Each begins with the member after itself: else all would send to the first one first.
void Group::Impl::give_contributions() {
  const size_t n = round->roster.count();
  for (size_t i = 1; i < n; ++i) {
    const size_t rank = (round->roster.self + i) % n;
    OutStream& out = round->links[rank].out[0];
    for (uint32_t index : blocks_of(rank)) {
      out.give(index, round->own->blocks[index]);
    }
    pump(rank, 0);
  }
}

// ---- time ----

void Group::Impl::tick() {
  const TimePoint now = clock.now();
  const bool first_due = round && round->open && !round->first_over && round->first_at <= now;
  if (first_due && !round->time_given && ahead_of_most()) {
    give_time();
  } else if (first_due) {
    pass_first();
  }
  const bool first_over = round && round->open && round->first_over;   // perhaps not, where the process stood still
  if (first_over && !round->second_over && round->second_at <= now) pass_second();
  if (round && round->open && round->credit_repeat_at <= now) repeat_credits();
}

// Most members were seen before, and not in this round yet.
bool Group::Impl::ahead_of_most() const {
  const uint64_t median = median_round(round->roster, round->number);
  return median > 0 && median < round->number;
}

// Where rounds end by the deadline, whoever is ahead of the others stays so: all of theirs is late here, round after
// round, though the links would do. So it waits for them once more as long.
void Group::Impl::give_time() {
  const Duration more = round->first_at - round->begun_at;
  round->time_given = true;
  round->first_at += more;
  round->second_at += more;
}

void Group::Impl::take_back_time() {
  const Duration rest = round->first_at - clock.now();
  if (!round->time_given || round->first_over || rest <= Duration::zero() || ahead_of_most()) return;
  round->first_at -= rest;
  round->second_at -= rest;
}

void Group::Impl::pass_first() {
  round->first_over = true;
  if (round->due[0] > 0 && round->arrived[0] == 0) deadlines[0].missed(round->first_at - round->begun_at);
  for (Owned& owned : round->owned) {
    if (!owned.started) start_average(owned);
  }
}

void Group::Impl::pass_second() {
  round->second_over = true;
  if (round->due[1] > 0 && round->arrived[1] == 0) deadlines[1].missed(round->second_at - round->begun_at);
  try_end();
}

TimePoint Group::Impl::next_deadline() const {
  if (!round || !round->open) return TimePoint::max();
  TimePoint next = round->credit_repeat_at;
  if (!round->first_over) next = std::min(next, round->first_at);
  if (round->first_over && !round->second_over) next = std::min(next, round->second_at);
  return next;
}

// ---- the public face ----

Group::Group(const GroupOptions& options, const Layout& layout, const Codec& codec, Worker& worker, const Clock& clock,
             Outbox& outbox, Company& company)
    : impl_(std::make_unique<Impl>(options, layout, codec, worker, clock, outbox, company)) {}
Group::~Group() = default;

void Group::publish(std::shared_ptr<const Snapshot> snapshot) { impl_->publish(std::move(snapshot)); }
void Group::retract() { impl_->snapshot = nullptr; }   // an open round goes on with the one it began with
bool Group::begin() { return impl_->begin(); }
bool Group::under_way() const { return impl_->round && !impl_->round->ended; }
void Group::handle(const PeerId& from, uint64_t, const ExchangeMessage& message, const SharedBytes& payload) {
  impl_->handle(from, message, payload);
}
void Group::tick() { impl_->tick(); }
TimePoint Group::next_deadline() const { return impl_->next_deadline(); }
void Group::forget(const PeerId& peer, uint64_t) { impl_->forget(peer); }
Decided Group::take_decided() { return {std::exchange(impl_->decided, {}), {}}; }
std::vector<ExchangeReport> Group::take_reports() { return std::exchange(impl_->reports, {}); }
bool Group::idle() const { return !impl_->round || !impl_->round->open; }
const BlockTally& Group::block_tally() const { return impl_->tally; }
const GroupCounters& Group::counters() const { return impl_->counters; }
ExchangeStatus Group::status() const {
  const Duration slower_phase = std::max(impl_->deadlines[0].usual(), impl_->deadlines[1].usual());
  return {.under_way = under_way(), .idle = idle(), .in_rounds = true, .usual_duration = slower_phase,
          .block_tally = block_tally()};
}
uint64_t Group::round() const { return impl_->round ? impl_->round->number : 0; }

}  // namespace starling
