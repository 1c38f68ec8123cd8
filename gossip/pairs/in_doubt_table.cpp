#include "gossip/pairs/in_doubt_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "gossip/limits.h"
#include "gossip/pairs/commit_log.h"

namespace starling {

void InDoubtTable::add(AcceptedExchange exchange) {
  const TimePoint now = clock_.now();
  const Duration deadline = exchange.ends_at() - exchange.started_at;
  exchange.voted_at = now;
  exchange.query_at = now + 2 * deadline;
  exchange.query_backoff = std::min(deadline, kRepeatSoon);
  exchange.park_at = now + kParkAfter * deadline;
  exchanges_.add(std::move(exchange));
}

// The decision usually follows the vote within the time that passed before the vote. If it was lost, there is no bound.
std::optional<TimePoint> InDoubtTable::busy_until() const {
  std::optional<TimePoint> until;
  for (const auto& [xid, exchange] : exchanges_) {
    const TimePoint usual_end = exchange.voted_at + (exchange.voted_at - exchange.started_at);
    const TimePoint end = std::min(usual_end, exchange.deadline_at);
    if (end > clock_.now()) until = std::max(until.value_or(end), end);
  }
  return until;
}

bool InDoubtTable::on_commit(const PeerId& from, const Commit& commit) {
  if (commit.xid.proposer != from) return false;
  const CommitTerms terms{commit.blocks, commit.scale};
  const CommitVoter::OnCommit what = voter_.on_commit(commit.xid, terms);
  if (what == CommitVoter::OnCommit::kIgnore) return false;
  if (what == CommitVoter::OnCommit::kApply) {
    ledger_.answered_after(clock_.now() - exchanges_.at(commit.xid).voted_at);
    ledger_.applied(exchanges_.at(commit.xid), terms);
    exchanges_.erase(commit.xid);
  } else {
    ledger_.ignore();  // a repeated COMMIT: the ACK was lost or is under way
  }
  outbox_.send(from, CommitAck{commit.xid});
  return true;
}

void InDoubtTable::fail(const ExchangeId& xid, bool undecided) {
  exchanges_.at(xid).undecided = undecided;
  ledger_.failed(exchanges_.at(xid), ExchangeOutcome::kFailed);
  exchanges_.erase(xid);
}

// A large model's turn waits for the word until then (PairAcceptor::waits_for_word). The doubt stays.
void InDoubtTable::lost(const PeerId& proposer) {
  for (auto& [xid, exchange] : exchanges_) {
    if (exchange.peer == proposer) exchange.slow_at = std::min(exchange.slow_at, clock_.now());
  }
}

// A doubt past its deadline holds no offer: its delta is applied at most once, and other exchanges need the offer.
void InDoubtTable::hold_offers() {
  for (auto& [xid, exchange] : exchanges_) {
    exchange.holds_offer = exchange.holds_offer && clock_.now() < exchange.deadline_at;
  }
  exchanges_.hold_offers(ledger_);
}

void InDoubtTable::forget(const PeerId& proposer, uint64_t generation) {
  for (const ExchangeId& xid : exchanges_.with_life_before(proposer, generation)) fail(xid, false);
}

void InDoubtTable::ask(AcceptedExchange& exchange) {
  outbox_.send(exchange.peer, Query{exchange.xid});
  exchange.query_at = clock_.now() + exchange.query_backoff;
  exchange.query_backoff = std::min(2 * exchange.query_backoff, kRepeatMax);
}

bool InDoubtTable::overdue_with(const PeerId& proposer) const {
  size_t open = 0;
  for (const auto& [xid, exchange] : exchanges_) {
    if (exchange.peer != proposer) continue;
    if (clock_.now() >= exchange.deadline_at || ++open >= kOpenPerPeerMax) return true;
  }
  return false;
}

bool InDoubtTable::votes_again(const PeerId& proposer) {
  if (!overdue_with(proposer)) return false;
  for (const auto& [xid, exchange] : exchanges_) {
    if (exchange.peer == proposer) outbox_.send(proposer, Have{xid, *exchange.vote, told_scale(exchange)});
  }
  return true;
}

bool InDoubtTable::park_overdue() {
  AcceptedExchange* oldest = nullptr;
  for (auto& [xid, exchange] : exchanges_) {
    if (exchange.parked || clock_.now() < exchange.deadline_at) continue;
    if (oldest == nullptr || exchange.park_at < oldest->park_at) oldest = &exchange;
  }
  if (oldest == nullptr) return false;
  park(*oldest);
  return true;
}

// The proposer may be cut off for hours. Its doubt must not keep this agent from voting on other exchanges meanwhile.
// Each parked doubt holds two payloads, so their number is limited.
void InDoubtTable::park(AcceptedExchange& exchange) {
  exchange.parked = true;
  voter_.park(exchange.xid);
  ledger_.in_vain(exchange);
  if (voter_.parked_count() > kParkedDoubtsMax) break_oldest();
}

void InDoubtTable::break_oldest() {
  const AcceptedExchange* oldest = nullptr;
  for (const auto& [xid, exchange] : exchanges_) {
    if (exchange.parked && (oldest == nullptr || exchange.park_at < oldest->park_at)) oldest = &exchange;
  }
  ++ledger_.counters().doubts_broken;
  voter_.break_doubt(oldest->xid);
  fail(ExchangeId(oldest->xid), true);
}

bool InDoubtTable::tick() {
  const TimePoint now = clock_.now();
  for (auto& [xid, exchange] : exchanges_) {
    if (exchange.query_at <= now) ask(exchange);
  }
  const auto to_park = exchanges_.ids([&](const AcceptedExchange& e) { return !e.parked && e.park_at <= now; });
  for (const ExchangeId& xid : to_park) {
    AcceptedExchange* exchange = find(xid, xid.proposer);  // nullptr: broken just now
    if (exchange != nullptr) park(*exchange);
  }
  return !to_park.empty();
}

TimePoint InDoubtTable::next_deadline() const {
  TimePoint next = TimePoint::max();
  for (const auto& [xid, exchange] : exchanges_) {
    next = std::min({next, exchange.query_at, exchange.parked ? TimePoint::max() : exchange.park_at});
  }
  return next;
}

// Questions to a silent peer become rare. Any frame from the peer shows that it can answer again, so they speed up.
void InDoubtTable::repeat_sooner(const PeerId* heard_from) {
  for (auto& [xid, exchange] : exchanges_) {
    if (exchange.query_backoff <= kRepeatSoon || (heard_from != nullptr && exchange.peer != *heard_from)) continue;
    exchange.query_at = clock_.now();
    exchange.query_backoff = kRepeatSoon;
  }
}

}  // namespace starling
