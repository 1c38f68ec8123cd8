#include "gossip/group/group_round.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace starling {

GroupRound::GroupRound(const GroupOptions& options, double far, const Layout& layout, const Codec& codec,
                       Worker& worker, const Clock& clock, Outbox& outbox, const RoundNumbers& numbers,
                       OutcomeTally& outcomes, std::function<void(RoundEnd)> on_end)
    : clock_(clock),
      outcomes_(outcomes),
      on_end_(std::move(on_end)),
      blocks_(options, far, layout, codec, worker, outcomes, outbox, [this] { try_end(); }),
      wait_(options.deadline_min, options.deadline_max, 3 * options.deadline_max, clock, numbers) {}

void GroupRound::begin(const GroupMembers& members, uint64_t number, std::shared_ptr<const Snapshot> own) {
  STARLING_CHECK(ended_);
  if (number_ > 0) {
    close();
    blocks_.retire();
  }
  members_ = members;
  number_ = number;
  open_ = true;
  ended_ = false;
  wait_.begin(members, number);
  blocks_.begin(members, number, std::move(own), clock_.now(), credit_repeat());
}

// ---- waiting ----

// The round goes on without this member. A block of it that still arrives before the end counts.
void GroupRound::stop_waiting(size_t rank) {
  if (!blocks_.waits_for(rank)) return;
  blocks_.stop_waiting(rank);
  try_end();
}

void GroupRound::stop_waiting_for_those_ahead() {
  for (size_t rank : wait_.ahead()) stop_waiting(rank);
}

void GroupRound::stop_waiting_for_the_silent() {
  for (size_t rank : wait_.silent(blocks_.count())) stop_waiting(rank);
}

void GroupRound::forget(const PeerId& peer) {
  blocks_.forget(peer);
  const std::optional<size_t> rank = number_ > 0 ? members_.rank_of_other(peer) : std::nullopt;
  if (!rank || blocks_.streams().dead(*rank)) return;
  blocks_.mark_dead(*rank);
  stop_waiting(*rank);
}

// ---- time ----

void GroupRound::tick() {
  GroupStreams& streams = blocks_.streams();
  if (open_ && wait_.first_ends()) {
    wait_.pass_first(streams.nothing_came(0));
    blocks_.stop_waiting_for_all();
  }
  if (open_ && wait_.second_ends()) {
    wait_.pass_second(streams.nothing_came(1));
    try_end();
  }
  if (open_) streams.repeat_credits(clock_.now(), credit_repeat(), !ended_, wait_.first_over());
}

TimePoint GroupRound::next_deadline() const {
  return open_ ? std::min(blocks_.streams().credits_repeat_at(), wait_.next()) : TimePoint::max();
}

// ---- what arrives: all of it is hostile until checked ----

void GroupRound::receive(size_t rank, const RoundBlock& block, const SharedBytes& payload) {
  // Ignored: implausible, from a dead member, not for this agent, or a duplicate.
  if (!blocks_.arrived(rank, block, payload)) return outcomes_.ignore();
  wait_.arrived(block.phase);
  blocks_.receive(rank, block, payload, !ended_ && !wait_.second_over());
  const bool useful = block.phase == 0 ? !wait_.first_over() : !ended_;
  if (open_ && useful) blocks_.streams().credit_more(rank, block.phase);
}

// A block of the previous round. It feeds the deadline, and counts in this round if the sender's new block is missing.
void GroupRound::receive_late(size_t rank, const RoundBlock& block, const SharedBytes& payload) {
  if (!blocks_.streams().arrived_late(rank, block, payload)) return outcomes_.ignore();
  wait_.arrived_late(block.phase);
  if (!blocks_.receive_late(rank, block, payload)) outcomes_.ignore();
}

void GroupRound::on_credit(size_t rank, const RoundCredit& credit) {
  blocks_.streams().on_credit(rank, credit);
  try_end();
}

// ---- the end ----

void GroupRound::try_end() {
  if (!ended_) {
    const bool over = blocks_.resolved() || (wait_.second_over() && blocks_.jobs() == 0);
    if (!over) return;
    finish();
  }
  if (open_ && (wait_.second_over() || blocks_.streams().drained())) close();
}

void GroupRound::finish() {
  ended_ = true;
  RoundEnd end = blocks_.take_end();
  end.report.duration = wait_.elapsed();
  on_end_(std::move(end));
}

void GroupRound::close() {
  STARLING_CHECK(ended_);
  open_ = false;
  blocks_.close();
}

}  // namespace starling
