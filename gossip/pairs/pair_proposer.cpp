#include "gossip/pairs/pair_proposer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/coefficients.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr int kWaitForTurn = 3;  // deadlines
constexpr size_t kUploadsMin = 3;
constexpr int kThin = 4;                   // a turn takes more round trips
constexpr size_t kFewPackets = 16 * 1024;  // bytes that no link is thin for

}  // namespace

PairProposer::PairProposer(const PairwiseOptions& options, PairState& ledger, PairBlocks& blocks, const Clock& clock,
                           Outbox& outbox)
    : self_(options.self),
      ledger_(ledger),
      blocks_(blocks),
      clock_(clock),
      outbox_(outbox),
      deadline_max_(options.deadline_max),
      log_(options.self, options.generation, clock, outbox),
      late_(options.deadline_min, options.deadline_max),
      turn_(options.deadline_min, options.deadline_max) {}

bool PairProposer::propose(const Asked& asked) {
  if (ledger_.snapshot() == nullptr) return false;
  const double offer = ledger_.take_offer();
  if (offer == 0) return false;
  const PeerId peer = asked.peer;
  ask_again_crossed(peer);

  // Whole milliseconds on the wire: this side waits for exactly what it announces.
  const auto deadline_ms = std::chrono::ceil<std::chrono::milliseconds>(asked.patience);
  const ExchangeId xid = log_.open(peer);
  const uint32_t fragment = ledger_.next_fragment(peer);
  const TimePoint now = clock_.now();
  ProposedExchange fresh{PairExchange{.xid = xid,
                                      .peer = peer,
                                      .initiated = true,
                                      .own = ledger_.snapshot(),
                                      .own_offer = offer,
                                      .started_at = now,
                                      .deadline_at = now + deadline_ms,
                                      .deadline = deadline_ms,
                                      .own_slot = asked.slot,
                                      .scheduled = asked.scheduled,
                                      .brief = asked.brief,
                                      .fragment = fragment,
                                      .blocks = blocks_.none_yet(fragment),
                                      .repeat_after = ledger_.repeat_after()}};
  ProposedExchange& exchange = exchanges_.add(std::move(fresh));
  exchange.blocks_first = asked.blocks_first && blocks_.may_come_early();
  exchange.sent_at_once = exchange.blocks_first || sends_at_once();
  ++ledger_.counters().initiated;
  send_proposal(exchange, deadline_ms);
  if (ledger_.by_turns()) exchange.ask_again_at = now + ledger_.repeat_after();
  if (!ledger_.by_turns()) blocks_.expect_pace(exchange);
  if (exchange.sent_at_once) blocks_.send_all(exchange);
  return true;
}

void PairProposer::send_proposal(const ProposedExchange& exchange, Duration deadline) {
  const auto deadline_ms = std::chrono::ceil<std::chrono::milliseconds>(deadline).count();
  outbox_.send(exchange.peer, Propose{.xid = exchange.xid,
                                      .offer = exchange.own_offer,
                                      .mass = exchange.own->mass,
                                      .round = exchange.own->round,
                                      .deadline_ms = static_cast<uint32_t>(std::max<int64_t>(1, deadline_ms)),
                                      .credit = exchange.blocks.credit(),
                                      .payload = exchange.own->number,
                                      .fragment = exchange.fragment,
                                      .slot = exchange.own_slot,
                                      .steps_us = ledger_.steps_us(),
                                      .blocks_first = exchange.blocks_first});
}

// Decides once all blocks of the acceptor's vote are judged here too. At the deadline it decides on the blocks that
// have passed by then.
void PairProposer::try_decide(ProposedExchange& exchange) {
  const TimePoint now = clock_.now();
  const CommitTerms* vote = exchange.agreed ? log_.vote(exchange.xid.counter) : nullptr;
  if (now < exchange.ends_at() && (vote == nullptr || !exchange.blocks.all_judged(vote->blocks))) return;

  CommitTerms mine{exchange.blocks.passed(), 1};
  const Bitmap both = vote != nullptr ? intersection(vote->blocks, mine.blocks) : Bitmap{};
  if (vote == nullptr) voted(exchange);
  if (count_bits(both) == 0 || !pass_guard(exchange, both)) {
    ended_in_time(exchange);
    exchange.undecided = now >= exchange.ends_at();
    return give_up(exchange, ExchangeOutcome::kFailed);
  }
  mine.scale = told_scale(exchange);
  ended_in_time(exchange);
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

// ---- by turns ----

// A turn may have to be waited for, so a proposal waits longer than an exchange takes.
Duration PairProposer::patience() const {
  if (!ledger_.by_turns()) return deadline().current();
  if (!deadline().known()) return blocks_.slack();
  return std::min(kWaitForTurn * deadline().current(), deadline_max_);
}

bool PairProposer::link_is_thin() const {
  return blocks_.exchange_bytes() > kFewPackets && usual_turn() > kThin * ledger_.round_trip();
}

// Blocks that go with a proposal save a round trip. Where the peer is busy they were sent in vain, and they slow down
// its exchange with another: on a thin link that costs more.
bool PairProposer::sends_at_once() const {
  if (!blocks_.may_come_early() || link_is_thin()) return false;
  const bool known = ledger_.by_turns() && usual_turn();
  return known || blocks_.exchange_bytes() <= PairBlocks::kEagerBytesMax;
}

// An early delta holds for the blocks and the scale it was made with.
bool PairProposer::pass_guard(ProposedExchange& exchange, const Bitmap& blocks) {
  if (exchange.early_coefficient != 0 && exchange.early_blocks == blocks) return true;
  return ledger_.pass_guard(exchange, blocks);
}

// From the first sign on, the exchange takes what exchanges take, without waiting.
void PairProposer::sign(ProposedExchange& exchange) {
  if (!ledger_.by_turns() || exchange.first_sign) return;
  exchange.first_sign = clock_.now();
  exchange.deadline_at = clock_.now() + (exchange.brief ? brief_turn() : turn_deadline());
  blocks_.expect_pace(exchange);
}

// The acceptor has judged this agent's blocks, or waits for them no longer.
void PairProposer::voted(const ProposedExchange& exchange) {
  if (!exchange.first_sign) return;  // by turns alone
  const Duration messages = exchange.sent_at_once && !exchange.blocks_first ? Duration::zero() : ledger_.round_trip();
  const Duration took = clock_.now() - (exchange.blocks_first ? exchange.started_at : *exchange.first_sign) - messages;
  const double upload = std::max(0.0, seconds(took));
  // Blocks that go first may have waited for the acceptor besides.
  uploads_.add(exchange.blocks_first ? std::min(upload, uploads_.median()) : upload);
}

std::optional<Duration> PairProposer::upload() const {
  if (blocks_.exchange_bytes() <= kFewPackets) return Duration::zero();
  return uploads_.size() < kUploadsMin ? std::nullopt : std::optional(from_seconds(uploads_.median()));
}

// Feeds the deadlines: of the whole exchange, and of the turn alone.
void PairProposer::ended_in_time(const ProposedExchange& exchange) {
  const TimePoint now = clock_.now();
  if (exchange.slow_at <= now) return late_.too_slow(deadline_max_);
  const bool in_time = now < exchange.deadline_at;
  if (!exchange.first_sign) return late_.ended(exchange, now);
  if (in_time) turn_.arrived(now - *exchange.first_sign);
  if (!in_time) turn_.missed(turn_deadline() / 2);
  if (in_time) late_.ended(exchange, now);
}

std::vector<PeerId> PairProposer::peers() const {
  std::vector<PeerId> peers = log_.unacknowledged_by();
  for (const auto& [xid, exchange] : exchanges_) peers.push_back(exchange.peer);
  return peers;
}

void PairProposer::add_owing(std::vector<PeerId>& peers) const {
  std::map<PeerId, size_t> commits;
  for (const PeerId& peer : log_.unacknowledged_by()) {
    if (++commits[peer] == kUnacknowledgedMax) peers.push_back(peer);
  }
}

ProposedExchange* PairProposer::asking() {
  for (auto& [xid, exchange] : exchanges_) {
    if (exchange.early_coefficient == 0) return &exchange;
  }
  return nullptr;
}

bool PairProposer::is_asking() const {
  return std::any_of(exchanges_.begin(), exchanges_.end(),
                     [](const auto& row) { return row.second.early_coefficient == 0; });
}

void PairProposer::cross(ProposedExchange& exchange, uint64_t generation, const Propose& propose) {
  STARLING_CHECK(!exchange.agreed && !exchange.crossed);
  exchange.crossed = propose.xid;
  exchange.peer_generation = generation;
  exchange.peer_offer = propose.offer;
  exchange.peer_mass = propose.mass;
  exchange.peer_round = propose.round;
  exchange.peer_payload = propose.payload;
  exchange.peer_slot = propose.slot;
  blocks_.watch(exchange);
  ++ledger_.counters().crossed;
}

std::shared_ptr<const Snapshot> PairProposer::yield(ProposedExchange& exchange) {
  std::shared_ptr<const Snapshot> payload = exchange.own;
  log_.drop(exchange.xid.counter);
  ++ledger_.counters().crossed;
  exchanges_.erase(exchange.xid);
  return payload;
}

ProposedExchange* PairProposer::crossed_by(const ExchangeId& xid, const PeerId& from) {
  for (auto& [own, exchange] : exchanges_) {
    if (exchange.crossed == xid && exchange.peer == from) return &exchange;
  }
  return nullptr;
}

bool PairProposer::on_crossed_block(const PeerId& from, const BlockPayload& block, const SharedBytes& payload) {
  ProposedExchange* exchange = crossed_by(block.xid, from);
  if (exchange == nullptr) return false;
  if (!blocks_.receive(*exchange, block, payload)) ledger_.ignore();
  return true;
}

// All that the peer sent with its own proposal has passed, and it will accept this one with those very blocks. Applied
// at once, so that both are free after one latency; taken back if the peer decides otherwise.
void PairProposer::try_apply_early(ProposedExchange& exchange) {
  if (!exchange.crossed || exchange.early_coefficient != 0 || !exchange.blocks.all_judged()) return;
  const Bitmap passed = exchange.blocks.passed();
  if (count_bits(passed) == 0 || !ledger_.pass_guard(exchange, passed)) return;
  ledger_.apply_early(exchange, passed);
}

void PairProposer::ask_again(ProposedExchange& exchange) {
  const TimePoint now = clock_.now();
  exchange.ask_again_at = now + ledger_.repeat_after();
  send_proposal(exchange, exchange.deadline_at - now);
}

// A peer that lacks the proposal which crossed its own would take the next one for it.
void PairProposer::ask_again_crossed(const PeerId& peer) {
  for (auto& [xid, exchange] : exchanges_) {
    if (exchange.peer == peer && exchange.crossed && !exchange.agreed) ask_again(exchange);
  }
}

// ---- messages ----

void PairProposer::on_accept(const PeerId& from, uint64_t generation, const Accept& accept) {
  ProposedExchange* exchange = exchanges_.find(accept.xid, from);
  if (exchange == nullptr && ledger_.by_turns() && accept.xid.proposer == self_) {
    return log_.on_query(accept.xid, from);  // it waited too long, or the proposal was given up in a crossing
  }
  if (exchange == nullptr || exchange->agreed) return ledger_.ignore();
  const bool moved_on = accept.payload != exchange->peer_payload || accept.mass != exchange->peer_mass;
  if (exchange->crossed && moved_on) {  // the blocks that crossed are not what the acceptor serves
    return give_up(*exchange, ExchangeOutcome::kFailed);
  }
  if (!offer_is_sane(accept.offer) || !mass_is_sane(accept.mass)) {
    ledger_.ignore();
    return give_up(*exchange, ExchangeOutcome::kFailed);
  }
  exchange->agreed = true;
  exchange->peer_generation = generation;
  exchange->peer_offer = accept.offer;
  exchange->peer_mass = accept.mass;
  exchange->peer_round = accept.round;
  exchange->peer_payload = accept.payload;
  exchange->peer_slot = accept.slot;
  sign(*exchange);
  if (ledger_.by_turns() && !exchange->last_block_at) blocks_.watch(*exchange);
  exchange->round_trip = clock_.now() - exchange->started_at;
  ledger_.answered_after(exchange->round_trip);
  blocks_.grant(*exchange, accept.credit);
  try_decide(*exchange);
}

void PairProposer::on_busy(const PeerId& from, const Busy& busy) {
  ProposedExchange* exchange = exchanges_.find(busy.xid, from);
  const bool told = busy.free_in_ms > 0 && busy.xid.proposer == self_ && ledger_.on_busy_for;
  if (told) ledger_.on_busy_for(from, std::chrono::milliseconds(busy.free_in_ms), exchange == nullptr);
  if (exchange == nullptr) return told ? void() : ledger_.ignore();
  ++ledger_.counters().busy_received;
  exchange->free_in = std::chrono::milliseconds(busy.free_in_ms);
  if (exchange->agreed) voted(*exchange);
  log_.drop(busy.xid.counter);  // the acceptor left before any vote: no need to tell it
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
  sign(*exchange);
  if (!exchange->vote) voted(*exchange);
  exchange->vote = have.blocks;
  try_decide(*exchange);
}

void PairProposer::on_query(const PeerId& from, const Query& query) {
  if (query.xid.proposer != self_) return ledger_.ignore();
  log_.on_query(query.xid, from);
  ProposedExchange* exchange = exchanges_.find(query.xid, from);
  if (exchange != nullptr) fail(*exchange, ExchangeOutcome::kFailed);  // on_query() has aborted it in the log
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
  const auto before = std::exchange(exchange->last_arrival, clock_.now());  // receive() may end the exchange
  if (blocks_.receive(*exchange, block, payload)) return;
  exchange->last_arrival = before;
  ledger_.ignore();
}

void PairProposer::on_credit(const PeerId& from, const Credit& credit) {
  ProposedExchange* exchange = exchanges_.find(credit.xid, from);
  if (exchange == nullptr) return ledger_.ignore();
  blocks_.grant(*exchange, credit.credit);
}

void PairProposer::on_missing(const PeerId& from, const Missing& missing) {
  ProposedExchange* exchange = exchanges_.find(missing.xid, from);
  if (exchange == nullptr || !blocks_.send_missing(*exchange, missing.blocks)) ledger_.ignore();
}

void PairProposer::on_judged(const ExchangeId& xid, const PeerId& from, uint32_t index, BlockVerdict verdict,
                             const PairStats& stats) {
  ProposedExchange* exchange = exchanges_.find(xid, from);
  if (exchange == nullptr) return;
  exchange->blocks.judged(index, verdict, stats);
  try_apply_early(*exchange);
  try_decide(*exchange);
}

// ---- time ----

TimePoint PairProposer::next_deadline() const {
  return std::min({exchanges_.next_deadline(&ProposedExchange::deadline_at), late_.next_deadline(),
                   exchanges_.next_deadline(&ProposedExchange::ask_again_at), log_.next_deadline()});
}

void PairProposer::tick() {
  const auto due = [this](const ProposedExchange& exchange) { return exchange.ask_again_at <= clock_.now(); };
  for (const ExchangeId& xid : exchanges_.ids(due)) ask_again(exchanges_.at(xid));
  exchanges_.tick(clock_.now(), blocks_, &ProposedExchange::deadline_at,
                  [this](ProposedExchange& exchange) { try_decide(exchange); });
  log_.tick();
  late_.tick(clock_.now());
}

}  // namespace starling
