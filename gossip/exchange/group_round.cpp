#include "gossip/exchange/group_round.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "gossip/exchange/bitmap.h"
#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "kernels/check.h"

namespace starling {
namespace {

std::vector<size_t> payload_bounds(const Layout& layout, const Codec& codec) {
  STARLING_CHECK(!layout.blocks.empty() && layout.blocks.size() <= kBlocksMax);
  std::vector<size_t> bounds;
  for (const Block& block : layout.blocks) bounds.push_back(codec.payload_bytes_max(block.element_count));
  return bounds;
}

}  // namespace

GroupRound::GroupRound(const GroupOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
                       const Clock& clock, Outbox& outbox, const RoundNumbers& numbers, OutcomeTally& outcomes,
                       std::function<void(RoundEnd)> on_end)
    : options_(options), layout_(layout), clock_(clock), numbers_(numbers), outcomes_(outcomes),
      on_end_(std::move(on_end)),
      payload_bytes_max_(payload_bounds(layout, codec)),
      owner_(layout, codec, worker, outcomes,
             [this](uint32_t index, const AverageJob& job) { on_averaged(index, job); }),
      averages_(layout, codec, worker, outcomes, [this] { try_end(); }),
      streams_(layout.blocks.size(), *std::max_element(payload_bytes_max_.begin(), payload_bytes_max_.end()), owner_,
               outbox),
      times_(options.deadline_min, options.deadline_max) {}

void GroupRound::begin(const GroupMembers& members, uint64_t number, std::shared_ptr<const Snapshot> own) {
  STARLING_CHECK(ended_);
  if (number_ > 0) {
    close();
    owner_.retire();
    averages_.retire();
  }
  members_ = members;
  number_ = number;
  open_ = true;
  ended_ = false;
  streams_.begin(members, number, own->mass);
  owner_.begin(members, number, own);
  averages_.begin(members, number, own);
  times_.begin(clock_.now());
  const Duration interval = times_.first_wait() / kCreditRepeats;
  credit_repeat_at_ = streams_.credits_needed() ? clock_.now() + interval : TimePoint::max();
  give_contributions(*own);
}

// Each member begins with the one after itself; otherwise all would send to the first member first.
void GroupRound::give_contributions(const Snapshot& own) {
  for (size_t i = 1; i < members_.count(); ++i) {
    const size_t rank = (members_.self + i) % members_.count();
    for (uint32_t index : members_.blocks_of(rank, layout_.blocks.size(), number_)) {
      streams_.give(rank, 0, index, own.blocks[index]);
    }
    streams_.pump(rank, 0);
  }
}

// ---- waiting ----

// The round goes on without this member. A block of it that still arrives before the end counts.
void GroupRound::stop_waiting(size_t rank) {
  if (!owner_.waits_for(rank)) return;
  averages_.stop_waiting(rank);
  owner_.stop_waiting(rank);
  try_end();
}

// A member that was seen in a later round sends nothing more of this one. If the median is later, this agent is behind
// itself: it waits for nobody, so that it catches up.
void GroupRound::stop_waiting_for_those_ahead() {
  const bool behind = numbers_.median(members_, number_) > number_;
  for (size_t rank = 0; rank < members_.count(); ++rank) {
    if (rank == members_.self) continue;
    if (behind || numbers_.seen(members_, rank) > number_) stop_waiting(rank);
  }
}

// A member that sent nothing in a whole round may be dead, and the membership takes seconds to be sure. Until it is
// heard again, waiting for it would cost every member two deadlines per round.
void GroupRound::stop_waiting_for_the_silent() {
  for (size_t rank = 0; rank < members_.count(); ++rank) {
    const uint64_t heard = numbers_.seen(members_, rank);
    if (rank != members_.self && heard > 0 && heard + 1 < number_) stop_waiting(rank);
  }
}

void GroupRound::forget(const PeerId& peer) {
  owner_.forget(peer);
  const std::optional<size_t> rank = number_ > 0 ? members_.rank_of_other(peer) : std::nullopt;
  if (!rank || streams_.dead(*rank)) return;
  streams_.mark_dead(*rank);
  averages_.mark_dead(*rank);
  owner_.mark_dead(*rank);
  stop_waiting(*rank);
}

// ---- time ----

void GroupRound::tick() {
  const TimePoint now = clock_.now();
  if (open_ && times_.first_due(now)) {
    // If every round ends by deadline, a member that is ahead stays ahead: it sees all other blocks as late even though
    // the links are fast enough. So it extends its first deadline once.
    if (times_.may_extend() && ahead_of_most()) {
      times_.extend();
    } else {
      pass_first();
    }
  }
  if (open_ && times_.second_due(now)) pass_second();
  if (open_ && credit_repeat_at_ <= now) repeat_credits();
}

// True: the median of the members' rounds is known and earlier than this round.
bool GroupRound::ahead_of_most() const {
  const uint64_t median = numbers_.median(members_, number_);
  return median > 0 && median < number_;
}

void GroupRound::take_back_time() {
  if (!times_.may_extend() && !ahead_of_most()) times_.take_back(clock_.now());
}

void GroupRound::pass_first() {
  times_.pass_first(streams_.due(0) > 0 && streams_.came(0) == 0);
  owner_.stop_waiting_for_all();
}

void GroupRound::pass_second() {
  times_.pass_second(streams_.due(1) > 0 && streams_.came(1) == 0);
  try_end();
}

void GroupRound::repeat_credits() {
  const bool waiting = !ended_ && streams_.repeat_credits(times_.first_over());
  const Duration interval = std::max(times_.first_wait() / kCreditRepeats, Duration(1));
  credit_repeat_at_ = waiting ? clock_.now() + interval : TimePoint::max();
}

TimePoint GroupRound::next_deadline() const {
  return open_ ? std::min(credit_repeat_at_, times_.next()) : TimePoint::max();
}

// ---- what arrives: all of it is hostile until checked ----

void GroupRound::receive(size_t rank, const RoundBlock& block, const SharedBytes& payload) {
  const bool contribution = block.phase == 0;
  const uint32_t counted_by_owner = 1u << rank;
  const bool plausible = contribution ? block.counted == 0
                                      : block.counted >> members_.count() == 0 &&
                                            (block.counted & counted_by_owner) != 0;
  // Ignored: implausible, from a dead member, not for this agent, or a duplicate.
  if (!plausible || !streams_.arrived(rank, block, payload)) return outcomes_.ignore();
  times_.arrived(block.phase, clock_.now());
  const bool lost = injected_loss(rank, block);
  if (contribution) {
    owner_.receive(rank, block, payload, fits(block, payload), lost);
  } else {
    averages_.receive(rank, block.index, payload, fits(block, payload), lost, !ended_ && !times_.second_over());
  }
  const bool useful = contribution ? !times_.first_over() : !ended_;
  if (open_ && useful) streams_.credit_more(rank, block.phase);
}

// A block of the previous round. It feeds the deadline, and counts in this round if the sender's new block is missing.
void GroupRound::receive_late(size_t rank, const RoundBlock& block, const SharedBytes& payload) {
  if (!streams_.arrived_late(rank, block, payload)) return outcomes_.ignore();
  times_.arrived_late(block.phase, clock_.now());
  const bool of_use = block.phase == 0 && fits(block, payload) && !injected_loss(rank, block) &&
                      owner_.receive_late(rank, block, payload);
  if (!of_use) outcomes_.ignore();
}

void GroupRound::on_credit(size_t rank, const RoundCredit& credit) {
  streams_.on_credit(rank, credit);
  try_end();
}

bool GroupRound::injected_loss(size_t rank, const RoundBlock& block) const {
  if (options_.inject_loss <= 0) return false;
  std::array<std::byte, 8 + 8 + 32 + 32 + 4 + 1> bytes;
  size_t at = 0;
  const auto put_number = [&](uint64_t value, size_t size) {   // little end first on every machine
    for (size_t i = 0; i < size; ++i) bytes[at++] = static_cast<std::byte>(value >> (8 * i));
  };
  const auto put_id = [&](const PeerId& id) {
    std::memcpy(bytes.data() + at, id.bytes.data(), id.bytes.size());
    at += id.bytes.size();
  };
  put_number(options_.rng_seed, 8);
  put_number(block.round, 8);
  put_id(members_.ids[rank]);
  put_id(options_.self);
  put_number(block.index, 4);
  put_number(block.phase, 1);
  return static_cast<double>(xxh3_64(bytes) >> 11) * 0x1.0p-53 < options_.inject_loss;
}

// ---- the end ----

void GroupRound::on_averaged(uint32_t index, const AverageJob& job) {
  averages_.set_own(index, job.average, job.squared_distance);
  for (size_t i = 1; i < members_.count() && !job.average.empty(); ++i) {
    const size_t rank = (members_.self + i) % members_.count();
    if (streams_.dead(rank)) continue;
    streams_.give(rank, 1, index, job.average);
    streams_.pump(rank, 1);
  }
  try_end();
}

void GroupRound::try_end() {
  if (!ended_) {
    const bool over = averages_.unresolved() == 0 || (times_.second_over() && jobs() == 0);
    if (!over) return;
    finish();
  }
  if (open_ && (times_.second_over() || streams_.drained())) close();
}

void GroupRound::finish() {
  ended_ = true;
  RoundEnd end;
  end.whole = owner_.counted() == streams_.due(0) && averages_.counted() == streams_.due(1);
  const bool any = owner_.counted() + averages_.counted() + owner_.late_counted() > 0;
  Delta delta = averages_.take_delta();
  ExchangeReport& report = end.report;
  report.initiated = true;
  report.outcome = end.whole ? ExchangeOutcome::kDone : any ? ExchangeOutcome::kLate : ExchangeOutcome::kFailed;
  report.duration = clock_.now() - times_.begun_at();
  report.blocks_mixed = any ? static_cast<uint32_t>(count_bits(delta.blocks)) : 0;
  report.blocks_total = static_cast<uint32_t>(layout_.blocks.size());
  report.payload_bytes_sent = streams_.take_bytes_sent();
  report.payload_bytes_received = streams_.take_bytes_received();
  if (report.outcome != ExchangeOutcome::kFailed) report.distance = averages_.distance(options_.param_blocks);
  report.peer_round = number_;
  if (any) end.delta = std::move(delta);   // otherwise the averages equal the own blocks
  on_end_(std::move(end));
}

void GroupRound::close() {
  STARLING_CHECK(ended_ && jobs() == 0);
  open_ = false;
  owner_.release();
  averages_.release();
  streams_.close();
}

}  // namespace starling
