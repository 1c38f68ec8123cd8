#include "gossip/pairs/pair_acceptor.h"

#include <algorithm>
#include <utility>

#include "gossip/exchange/bitmap.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr size_t kEarlyBytesMax = 4 << 20;  // a delta applied at the vote holds two payloads while in doubt
constexpr double kVoteFraction = 0.6;       // of the deadline; the rest is for the vote to reach the proposer

uint32_t whole_ms(Duration duration) {
  const int64_t ms = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return static_cast<uint32_t>(std::clamp<int64_t>(ms, 0, 60'000));
}

TimePoint vote_due(const PairExchange& exchange) {
  return exchange.started_at + from_seconds(kVoteFraction * seconds(exchange.deadline));
}

}  // namespace

PairAcceptor::PairAcceptor(const PairwiseOptions& options, PairState& ledger, PairBlocks& blocks, const Clock& clock,
                           Outbox& outbox)
    : options_(options),
      ledger_(ledger),
      blocks_(blocks),
      clock_(clock),
      outbox_(outbox),
      doubts_(voter_, ledger, clock, outbox) {}

AcceptedExchange* PairAcceptor::find(const ExchangeId& xid, const PeerId& from) {
  AcceptedExchange* exchange = exchanges_.find(xid, from);
  return exchange != nullptr ? exchange : doubts_.find(xid, from);
}

// ---- proposals ----

bool PairAcceptor::has_room() {
  return voter_.accepted_count() < kAcceptedMax && (voter_.may_vote() || doubts_.park_overdue());
}

void PairAcceptor::supersede(const PeerId& proposer) {
  for (const ExchangeId& xid : exchanges_.with(proposer)) {
    if (!exchanges_.at(xid).crossed) leave_undecided(xid);  // else its proposer may have applied early, and be free
  }
}

void PairAcceptor::lost(const PeerId& peer) {
  for (const ExchangeId& xid : exchanges_.with(peer)) leave_undecided(xid);
  doubts_.lost(peer);
}

void PairAcceptor::leave_undecided(const ExchangeId& xid) {
  voter_.leave(xid);
  exchanges_.at(xid).undecided = true;
  fail(exchanges_.at(xid));
}

void PairAcceptor::refuse(const ExchangeId& xid, Duration free_in) {
  refuse(xid);
  ++ledger_.counters().busy_sent;
  say_busy(xid, free_in);
}

void PairAcceptor::say_busy(const ExchangeId& xid, Duration free_in) {
  outbox_.send(xid.proposer, Busy{xid, whole_ms(free_in)});
}

void PairAcceptor::accept(const PeerId& from, const Propose& propose, const Turn& turn) {
  const bool accepted = voter_.accept(propose.xid);
  STARLING_CHECK(accepted);
  ++ledger_.counters().accepted;
  const Duration deadline = std::clamp(turn.left, options_.deadline_min, options_.deadline_max);
  const TimePoint now = clock_.now();
  AcceptedExchange fresh{PairExchange{.xid = propose.xid,
                                      .peer = from,
                                      .own = turn.own,
                                      .own_offer = ledger_.take_offer(),
                                      .started_at = now,
                                      .deadline_at = now + deadline,
                                      .deadline = deadline,
                                      .agreed = true,
                                      .peer_generation = propose.xid.generation,
                                      .peer_offer = propose.offer,
                                      .peer_mass = propose.mass,
                                      .peer_round = propose.round,
                                      .peer_payload = propose.payload,
                                      .own_slot = turn.slot,
                                      .peer_slot = propose.slot,
                                      .scheduled = turn.scheduled,
                                      .fragment = propose.fragment,
                                      .blocks = blocks_.none_yet(propose.fragment),
                                      .send_credit = propose.credit,
                                      .repeat_after = ledger_.repeat_after()}};
  fresh.vote_at = vote_due(fresh);
  AcceptedExchange& exchange = exchanges_.add(std::move(fresh));
  exchange.crossed = turn.crossed;
  exchange.waited = turn.waited;
  if (turn.sent) exchange.send_next = static_cast<uint32_t>(blocks_.count());
  send_accept(exchange);
  blocks_.send(exchange);
  if (ledger_.by_turns()) blocks_.watch(exchange);
  blocks_.expect_pace(exchange);
}

void PairAcceptor::send_accept(const AcceptedExchange& exchange) {
  outbox_.send(exchange.peer,
               Accept{exchange.xid, exchange.own_offer, exchange.own->mass, exchange.own->round,
                      exchange.blocks.credit(), exchange.own->number, exchange.own_slot, ledger_.steps_us()});
}

bool PairAcceptor::answer_again(const ExchangeId& xid, const PeerId& from) {
  AcceptedExchange* exchange = find(xid, from);
  if (exchange == nullptr) return false;
  send_accept(*exchange);
  if (exchange->vote) outbox_.send(from, Have{xid, *exchange->vote, told_scale(*exchange)});
  return true;
}

void PairAcceptor::answer_again(const PeerId& proposer) {
  for (const ExchangeId& xid : exchanges_.with(proposer)) answer_again(xid, proposer);
  for (const auto& [xid, exchange] : doubts_) {
    if (exchange.peer == proposer) answer_again(xid, proposer);
  }
}

// By turns, a vote whose delta is not applied yet waits for the decision, but not beyond the deadline.
bool PairAcceptor::waits_for_word(const AcceptedExchange& exchange) const {
  const bool moves = exchange.early_coefficient == 0 && exchange.scale > 0;
  return ledger_.by_turns() && moves && clock_.now() < exchange.ends_at();
}

bool PairAcceptor::in_turn() const { return !exchanges_.empty() || free_at() != TimePoint::max(); }

TimePoint PairAcceptor::free_at() const {
  TimePoint at = TimePoint::max();
  for (const auto& [xid, exchange] : doubts_) {
    if (waits_for_word(exchange)) at = std::min(at, exchange.ends_at());
  }
  return at;
}

std::vector<PeerId> PairAcceptor::peers() const {
  std::vector<PeerId> peers;
  for (const auto& [xid, exchange] : exchanges_) peers.push_back(exchange.peer);
  for (const auto& [xid, exchange] : doubts_) peers.push_back(exchange.peer);
  return peers;
}

// ---- the vote ----

// Votes for the blocks that have passed, as soon as all blocks are judged or the time to vote has come.
void PairAcceptor::try_vote(AcceptedExchange& exchange) {
  const TimePoint now = clock_.now();
  const bool all = exchange.blocks.all_judged();
  if (now >= exchange.ends_at()) {
    exchange.undecided = !all;
    return drop_out(exchange);
  }
  if (!all && now < vote_due(exchange)) return;
  exchange.vote_at = exchange.deadline_at;  // if it cannot vote below, it drops out then
  const Bitmap passed = exchange.blocks.passed();
  if (count_bits(passed) == 0) {
    if (!all && exchange.blocks.judging_count() > 0) return;
    exchange.undecided = !all;
    return drop_out(exchange);
  }
  if (!voter_.may_vote()) return;  // too many doubts: retry_votes() follows when one of them ends

  if (!ledger_.pass_guard(exchange, passed)) return drop_out(exchange);
  const bool voted = voter_.vote(exchange.xid, {passed, told_scale(exchange)});
  STARLING_CHECK(voted);
  exchange.vote = passed;
  outbox_.send(exchange.peer, Have{exchange.xid, passed, told_scale(exchange)});
  if (ledger_.by_turns() && blocks_.exchange_bytes() <= kEarlyBytesMax) ledger_.apply_early(exchange, passed);
  const ExchangeId xid = exchange.xid;
  doubts_.add(std::move(exchange));
  exchanges_.erase(xid);
}

void PairAcceptor::retry_votes() {
  for (const ExchangeId& xid : exchanges_.ids([](const AcceptedExchange&) { return true; })) {
    try_vote(exchanges_.at(xid));
  }
}

// Leaves the exchange before the vote and tells the proposer, so that it does not wait.
void PairAcceptor::drop_out(AcceptedExchange& exchange) {
  const bool left = voter_.leave(exchange.xid);
  STARLING_CHECK(left);
  outbox_.send(exchange.peer, Busy{exchange.xid, 0});
  fail(exchange);
}

void PairAcceptor::fail(AcceptedExchange& exchange) {
  ledger_.failed(exchange, ExchangeOutcome::kFailed);
  exchanges_.erase(exchange.xid);
}

// ---- the proposer's decision ----

void PairAcceptor::on_commit(const PeerId& from, const Commit& commit) {
  if (!doubts_.on_commit(from, commit)) return ledger_.ignore();
  retry_votes();
}

void PairAcceptor::on_abort(const PeerId& from, uint64_t generation, const Abort& abort) {
  const bool own = abort.xid.proposer == from && abort.xid.generation <= generation;
  if (!own || !voter_.on_abort(abort.xid)) return ledger_.ignore();
  if (AcceptedExchange* exchange = exchanges_.find(abort.xid, from)) {
    exchange->undecided = exchange->blames_abort(clock_.now());
    fail(*exchange);
  } else {
    doubts_.aborted(abort.xid);
  }
  retry_votes();
}

void PairAcceptor::forget(const PeerId& peer, uint64_t generation) {
  voter_.forget(peer, generation);
  for (const ExchangeId& xid : exchanges_.with_life_before(peer, generation)) fail(exchanges_.at(xid));
  doubts_.forget(peer, generation);
  retry_votes();
}

// ---- blocks ----

bool PairAcceptor::on_block(const PeerId& from, const BlockPayload& block, const SharedBytes& payload) {
  AcceptedExchange* exchange = find(block.xid, from);
  if (exchange == nullptr) return false;
  if (!blocks_.receive(*exchange, block, payload)) ledger_.ignore();
  return true;
}

void PairAcceptor::on_credit(const PeerId& from, const Credit& credit) {
  AcceptedExchange* exchange = find(credit.xid, from);
  if (exchange == nullptr) return ledger_.ignore();
  blocks_.grant(*exchange, credit.credit);
}

void PairAcceptor::on_missing(const PeerId& from, const Missing& missing) {
  AcceptedExchange* exchange = find(missing.xid, from);
  if (exchange == nullptr || !blocks_.send_missing(*exchange, missing.blocks)) ledger_.ignore();
}

void PairAcceptor::on_judged(const ExchangeId& xid, const PeerId& from, uint32_t index, BlockVerdict verdict,
                             const PairStats& stats) {
  AcceptedExchange* exchange = find(xid, from);
  if (exchange == nullptr) return;
  exchange->blocks.judged(index, verdict, stats);
  if (!exchange->vote) try_vote(*exchange);
}

// ---- time ----

std::optional<TimePoint> PairAcceptor::busy_until() const {
  std::optional<TimePoint> until = doubts_.busy_until();
  for (const auto& [xid, exchange] : exchanges_) {
    const TimePoint end = exchange.ends_at();
    if (end > clock_.now()) until = std::max(until.value_or(end), end);
  }
  return until;
}

TimePoint PairAcceptor::next_deadline() const {
  return std::min(exchanges_.next_deadline(&AcceptedExchange::vote_at), doubts_.next_deadline());
}

void PairAcceptor::tick() {
  exchanges_.tick(clock_.now(), blocks_, &AcceptedExchange::vote_at,
                  [this](AcceptedExchange& exchange) { try_vote(exchange); });
  if (doubts_.tick()) retry_votes();
}

}  // namespace starling
