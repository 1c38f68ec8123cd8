#include "gossip/exchange/pair_proposer.h"

#include <algorithm>
#include <utility>

#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/coefficients.h"
#include "kernels/check.h"

namespace starling {

PairProposer::PairProposer(const PairwiseOptions& options, PairLedger& ledger, PairBlocks& blocks, const Clock& clock,
                           Outbox& outbox)
    : self_(options.self), ledger_(ledger), blocks_(blocks), clock_(clock), outbox_(outbox),
      log_(options.self, options.generation, clock, outbox), late_(options.deadline_min, options.deadline_max) {}

bool PairProposer::propose(const PeerId& peer) {
  if (ledger_.snapshot() == nullptr) return false;
  const double offer = ledger_.take_offer();
  if (offer == 0) return false;

  // Whole milliseconds on the wire: this side waits for exactly what it announces.
  const auto deadline_ms = std::chrono::ceil<std::chrono::milliseconds>(deadline().current());
  const ExchangeId xid = log_.open(peer);
  const TimePoint now = clock_.now();
  ProposedExchange fresh{PairExchange{.xid = xid, .peer = peer, .initiated = true, .own = ledger_.snapshot(),
                                      .own_offer = offer, .started_at = now,
                                      .deadline_at = now + deadline_ms, .deadline = deadline_ms,
                                      .blocks = blocks_.none_yet()}};
  ProposedExchange& exchange = exchanges_.add(std::move(fresh));
  ++ledger_.counters().initiated;
  outbox_.send(peer, Propose{.xid = xid, .offer = offer, .mass = exchange.own->mass,
                             .round = exchange.own->round,
                             .deadline_ms = static_cast<uint32_t>(deadline_ms.count()),
                             .credit = exchange.blocks.credit()});
  if (blocks_.eager()) blocks_.send_all(exchange);
  return true;
}

// Decides once all blocks of the acceptor's vote are judged here too. At the deadline it decides on the blocks that
// have passed by then.
void PairProposer::try_decide(ProposedExchange& exchange) {
  const TimePoint now = clock_.now();
  const CommitTerms* vote = exchange.agreed ? log_.vote(exchange.xid.counter) : nullptr;
  if (now < exchange.deadline_at && (vote == nullptr || !exchange.blocks.all_judged(vote->blocks))) return;

  CommitTerms mine{exchange.blocks.passed(), 1};
  const Bitmap both = vote != nullptr ? intersection(vote->blocks, mine.blocks) : Bitmap{};
  if (count_bits(both) == 0 || !ledger_.pass_guard(exchange, both)) {
    late_.ended(exchange, clock_.now());
    return give_up(exchange, ExchangeOutcome::kFailed);
  }
  mine.scale = exchange.scale;
  late_.ended(exchange, clock_.now());
  ledger_.applied(exchange, log_.commit(exchange, mine));
  exchanges_.erase(exchange.xid);
}

void PairProposer::give_up(const PeerId& peer, ExchangeOutcome outcome) {
  for (const ExchangeId& xid : exchanges_.with(peer)) give_up(exchanges_.at(xid), outcome);
}

void PairProposer::give_up(ProposedExchange& exchange, ExchangeOutcome outcome) {
  log_.abort(exchange);
  fail(exchange, outcome);
}

void PairProposer::fail(ProposedExchange& exchange, ExchangeOutcome outcome) {
  ledger_.failed(exchange, outcome, exchange.free_in);
  exchanges_.erase(exchange.xid);
}

// A proposal that no process of the peer has accepted yet (generation 0) ends too: it was sent to the earlier process.
void PairProposer::forget(const PeerId& peer, uint64_t generation) {
  for (const ExchangeId& xid : exchanges_.with_life_before(peer, generation)) {
    log_.drop(xid.counter);
    fail(exchanges_.at(xid), ExchangeOutcome::kFailed);
  }
  log_.forget(peer, generation);
  late_.forget(peer);
}

// ---- messages ----

void PairProposer::on_accept(const PeerId& from, uint64_t generation, const Accept& accept) {
  ProposedExchange* exchange = exchanges_.find(accept.xid, from);
  if (exchange == nullptr || exchange->agreed) return ledger_.ignore();
  if (!offer_is_sane(accept.offer) || !mass_is_sane(accept.mass)) {
    ledger_.ignore();
    return give_up(*exchange, ExchangeOutcome::kFailed);
  }
  exchange->agreed = true;
  exchange->peer_generation = generation;
  exchange->peer_offer = accept.offer;
  exchange->peer_mass = accept.mass;
  exchange->peer_round = accept.round;
  exchange->round_trip = clock_.now() - exchange->started_at;
  blocks_.grant(*exchange, accept.credit);
  try_decide(*exchange);   // the vote may have overtaken this
}

void PairProposer::on_busy(const PeerId& from, const Busy& busy) {
  ProposedExchange* exchange = exchanges_.find(busy.xid, from);
  if (exchange == nullptr) return ledger_.ignore();
  ++ledger_.counters().busy_received;
  exchange->free_in = std::chrono::milliseconds(busy.free_in_ms);
  log_.drop(busy.xid.counter);   // the acceptor left before any vote: no need to tell it
  fail(*exchange, exchange->agreed ? ExchangeOutcome::kFailed : ExchangeOutcome::kBusy);
}

void PairProposer::on_have(const PeerId& from, const Have& have) {
  if (have.xid.proposer != self_) return ledger_.ignore();
  ProposedExchange* exchange = exchanges_.find(have.xid, from);
  const bool readable = fits(have.blocks, blocks_.count()) && scale_is_sane(have.scale);
  if (exchange != nullptr && !readable) return ledger_.ignore();
  if (!log_.on_have(have.xid, from, {have.blocks, have.scale})) return late_.arrived(have.xid, from, clock_.now());
  STARLING_CHECK(exchange != nullptr);
  exchange->last_arrival = clock_.now();
  exchange->vote = have.blocks;
  if (have.scale < ClipGuard::kScaleMin) return give_up(*exchange, ExchangeOutcome::kFailed);
  try_decide(*exchange);
}

void PairProposer::on_query(const PeerId& from, const Query& query) {
  if (query.xid.proposer != self_) return ledger_.ignore();
  log_.on_query(query.xid, from);
  ProposedExchange* exchange = exchanges_.find(query.xid, from);
  if (exchange != nullptr) fail(*exchange, ExchangeOutcome::kFailed);   // on_query() has aborted it in the log
}

void PairProposer::on_ack(const PeerId& from, const CommitAck& ack) {
  if (!log_.on_ack(ack.xid, from)) ledger_.ignore();
}

void PairProposer::on_block(const PeerId& from, const BlockPayload& block, const SharedBytes& payload) {
  ProposedExchange* exchange = exchanges_.find(block.xid, from);
  if (exchange == nullptr) {
    late_.arrived(block.xid, from, clock_.now());
    return ledger_.ignore();
  }
  const auto before = std::exchange(exchange->last_arrival, clock_.now());   // receive() may end the exchange
  if (blocks_.receive(*exchange, block, payload)) return;
  exchange->last_arrival = before;
  ledger_.ignore();
}

void PairProposer::on_credit(const PeerId& from, const Credit& credit) {
  ProposedExchange* exchange = exchanges_.find(credit.xid, from);
  if (exchange == nullptr) return ledger_.ignore();
  blocks_.grant(*exchange, credit.credit);
}

void PairProposer::on_judged(const ExchangeId& xid, const PeerId& from, uint32_t index, BlockVerdict verdict,
                         const PairStats& stats) {
  ProposedExchange* exchange = exchanges_.find(xid, from);
  if (exchange == nullptr) return;
  exchange->blocks.judged(index, verdict, stats);
  try_decide(*exchange);
}

// ---- time ----

TimePoint PairProposer::next_deadline() const {
  return std::min({exchanges_.next_deadline(&ProposedExchange::deadline_at), late_.next_deadline(),
                   log_.next_deadline()});
}

void PairProposer::tick() {
  exchanges_.tick(clock_.now(), blocks_, &ProposedExchange::deadline_at,
                  [this](ProposedExchange& exchange) { try_decide(exchange); });
  log_.tick();
  late_.tick(clock_.now());
}

}  // namespace starling
