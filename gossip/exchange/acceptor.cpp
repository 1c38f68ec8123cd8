// The side that is asked: accepts, votes, and then waits for the proposer's word.
#include <algorithm>
#include <utility>

#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/pairwise_impl.h"
#include "gossip/exchange/weight.h"
#include "kernels/check.h"

namespace starling {
namespace {

uint32_t whole_ms(Duration duration) {
  const int64_t ms = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(ms, 0, 60'000));
}

}  // namespace

// nullopt: welcome. Else when to try again.
std::optional<uint32_t> Pairwise::Impl::busy_for_ms(const Propose& propose) const {
  const uint32_t soon_ms = whole_ms(deadline.current());
  if (snapshot == nullptr || !mass_is_sane(propose.mass)) return whole_ms(options.deadline_max);
  if (budget.largest_free() == 0) return whole_ms(published_at + publish_interval - clock.now());
  if (voter.accepted_count() >= kAcceptedMax || !voter.may_vote()) return soon_ms;
  return std::nullopt;
}

void Pairwise::Impl::on_propose(const PeerId& from, uint64_t generation, const Propose& propose) {
  const ExchangeId& xid = propose.xid;
  if (xid.proposer != from || xid.generation != generation || !share_is_sane(propose.offer)) return ignore();
  if (voter.seen(xid)) return ignore();
  if (retracted && waiting.size() < kWaitingMax) {
    std::erase_if(waiting, [&](const Waiting& one) { return one.from == from; });
    waiting.push_back({from, generation, propose});
    return;
  }

  std::vector<ExchangeId> superseded;   // whoever proposes anew has given up what it proposed before
  ExchangeId crossing{};
  for (const auto& [id, exchange] : exchanges) {
    if (exchange.peer != from) continue;
    if (exchange.initiated) crossing = id;
    if (!exchange.initiated && !exchange.vote) superseded.push_back(id);
  }
  for (const ExchangeId& id : superseded) {
    voter.leave(id);
    finish_failed(exchanges.at(id), ExchangeOutcome::kFailed);
  }
  if (crossing != ExchangeId{}) {   // both proposed at once: the smaller id's proposal stands
    if (options.self < from) {
      voter.refuse(xid);
      ++counters.busy_sent;
      outbox.send(from, Busy{xid, 0});
      return;
    }
    give_up(exchanges.at(crossing), ExchangeOutcome::kBusy);
  }
  if (const std::optional<uint32_t> free_in_ms = busy_for_ms(propose)) {
    voter.refuse(xid);
    stash.forget(from);
    ++counters.busy_sent;
    outbox.send(from, Busy{xid, *free_in_ms});
    return;
  }

  STARLING_CHECK(voter.accept(xid));
  ++counters.accepted;
  const Duration announced = std::chrono::milliseconds(propose.deadline_ms);
  PairExchange& exchange = add_exchange(xid, from, budget.take(),
                                    std::clamp(announced, options.deadline_min, options.deadline_max));
  exchange.agreed = true;
  exchange.peer_generation = generation;
  exchange.peer_offer = propose.offer;
  exchange.peer_mass = propose.mass;
  exchange.peer_round = propose.round;
  exchange.vote_at = exchange.started_at + from_seconds(kVoteFraction * seconds(exchange.deadline));
  exchange.send_credit = propose.credit;
  outbox.send(from, Accept{xid, exchange.own_offer, exchange.own->mass, exchange.own->round,
                           exchange.blocks.credit()});
  send_blocks(exchange);
  for (Stash::Item& item : stash.take(xid)) on_block(from, item.block, item.payload);
}

void Pairwise::Impl::on_commit(const PeerId& from, const Commit& commit) {
  if (commit.xid.proposer != from) return ignore();
  const CommitTerms terms{commit.blocks, commit.scale};
  switch (voter.on_commit(commit.xid, terms)) {
    case CommitVoter::OnCommit::kIgnore:
      return ignore();
    case CommitVoter::OnCommit::kApply: {
      PairExchange* exchange = find(commit.xid, from);
      STARLING_CHECK(exchange != nullptr);
      finish_applied(*exchange, terms);
      break;
    }
    case CommitVoter::OnCommit::kAcknowledge:
      ignore();   // a repeat: the ACK was lost or is under way
      break;
  }
  outbox.send(from, CommitAck{commit.xid});
  retry_votes();
}

void Pairwise::Impl::on_abort(const PeerId& from, uint64_t generation, const Abort& abort) {
  const bool own = abort.xid.proposer == from && abort.xid.generation <= generation;
  if (!own || !voter.on_abort(abort.xid)) return ignore();
  PairExchange* exchange = find(abort.xid, from);
  STARLING_CHECK(exchange != nullptr);
  finish_failed(*exchange, ExchangeOutcome::kFailed);
  retry_votes();
}

// Votes when the whole payload was judged, or when the time for it has come, with what has passed.
void Pairwise::Impl::try_vote(PairExchange& exchange) {
  const TimePoint now = clock.now();
  if (exchange.vote) return;
  if (now >= exchange.deadline_at) return drop_out(exchange);
  const TimePoint due = exchange.started_at + from_seconds(kVoteFraction * seconds(exchange.deadline));
  const bool all = exchange.blocks.all_judged();
  if (!all && now < due) return;
  exchange.vote_at = exchange.deadline_at;   // where it stops waiting for what keeps it from voting below
  if (exchange.blocks.passed_count() == 0) {
    if (all || exchange.blocks.judging_count() == 0) drop_out(exchange);
    return;
  }
  if (!voter.may_vote()) return;   // too many in doubt: again when one of them is settled

  const Bitmap passed = exchange.blocks.passed();
  if (!pass_guard(exchange, passed)) return drop_out(exchange);
  STARLING_CHECK(voter.vote(exchange.xid, {passed, exchange.scale}));
  exchange.vote = passed;
  exchange.voted_at = now;
  exchange.query_at = now + 2 * exchange.deadline;
  exchange.query_backoff = std::min(exchange.deadline, kRepeatSoon);
  exchange.park_at = now + kParkAfter * exchange.deadline;
  exchange.credit_repeat_at = TimePoint::max();
  outbox.send(exchange.peer, Have{exchange.xid, passed, exchange.scale});
}

// Before the vote: the proposer is told so that it need not wait.
void Pairwise::Impl::drop_out(PairExchange& exchange) {
  STARLING_CHECK(voter.leave(exchange.xid));
  outbox.send(exchange.peer, Busy{exchange.xid, 0});
  finish_failed(exchange, ExchangeOutcome::kFailed);
}

void Pairwise::Impl::ask_again(PairExchange& exchange) {
  outbox.send(exchange.peer, Query{exchange.xid});
  exchange.query_at = clock.now() + exchange.query_backoff;
  exchange.query_backoff = std::min(2 * exchange.query_backoff, kRepeatMax);
}

// The proposer may be cut off for hours; its doubt must not keep this agent from voting on others meanwhile. Each parked
// doubt holds two payloads, so their number has a limit.
void Pairwise::Impl::park(PairExchange& exchange) {
  exchange.parked = true;
  voter.park(exchange.xid);
  if (voter.parked_count() > kParkedDoubtsMax) {
    PairExchange* oldest = &exchange;
    for (auto& [xid, other] : exchanges) {
      if (other.parked && other.park_at < oldest->park_at) oldest = &other;
    }
    ++counters.doubts_broken;
    voter.break_doubt(oldest->xid);
    finish_failed(*oldest, ExchangeOutcome::kFailed);
  }
  retry_votes();
}

void Pairwise::Impl::retry_votes() {
  std::vector<ExchangeId> waiting;
  for (const auto& [xid, exchange] : exchanges) {
    if (!exchange.initiated && !exchange.vote) waiting.push_back(xid);
  }
  for (const ExchangeId& xid : waiting) try_vote(exchanges.at(xid));
}

}  // namespace starling
