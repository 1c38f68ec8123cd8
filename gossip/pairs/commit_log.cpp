#include "gossip/pairs/commit_log.h"

#include <algorithm>

#include "kernels/check.h"

namespace starling {

ExchangeId CommitLog::open(const PeerId& acceptor) {
  decider_.open(++last_counter_, acceptor);
  return id_of(last_counter_);
}

CommitTerms CommitLog::commit(const ProposedExchange& exchange, const CommitTerms& mine) {
  const uint64_t counter = exchange.xid.counter;
  const CommitTerms* terms = decider_.commit(counter, mine);
  STARLING_CHECK(terms != nullptr);
  const Duration first_repeat = std::clamp(2 * exchange.round_trip, kRepeatMin, kRepeatSoon);
  unacknowledged_[counter] = {exchange.peer, exchange.peer_generation, clock_.now() + first_repeat, first_repeat};
  send_commit(counter);
  return *terms;
}

void CommitLog::abort(const ProposedExchange& exchange) {
  const bool was_open = decider_.abort(exchange.xid.counter);
  STARLING_CHECK(was_open);
  outbox_.send(exchange.peer, Abort{exchange.xid});
}

bool CommitLog::on_have(const ExchangeId& xid, const PeerId& from, const CommitTerms& vote) {
  const CommitAnswer what = own(xid) ? decider_.on_have(xid.counter, from, vote) : CommitAnswer::kAbort;
  if (what == CommitAnswer::kNone) return true;
  answer(xid, from, what);
  return false;
}

void CommitLog::on_query(const ExchangeId& xid, const PeerId& from) {
  answer(xid, from, own(xid) ? decider_.on_query(xid.counter, from) : CommitAnswer::kAbort);
}

void CommitLog::answer(const ExchangeId& xid, const PeerId& to, CommitAnswer what) {
  if (what == CommitAnswer::kCommit) return send_commit(xid.counter);
  outbox_.send(to, Abort{xid});
}

bool CommitLog::on_ack(const ExchangeId& xid, const PeerId& from) {
  if (!own(xid) || !decider_.on_ack(xid.counter, from)) return false;
  unacknowledged_.erase(xid.counter);
  return true;
}

std::vector<PeerId> CommitLog::unacknowledged_by() const {
  std::vector<PeerId> peers;
  for (const auto& [counter, repeat] : unacknowledged_) peers.push_back(repeat.acceptor);
  return peers;
}

uint64_t CommitLog::generation_of(const PeerId& peer) const {
  uint64_t known = 0;
  for (const auto& [counter, repeat] : unacknowledged_) {
    if (repeat.acceptor == peer) known = std::max(known, repeat.generation);
  }
  return known;
}

void CommitLog::forget(const PeerId& peer, uint64_t generation) {
  std::erase_if(unacknowledged_, [&](const auto& entry) {
    if (entry.second.acceptor != peer || entry.second.generation >= generation) return false;
    decider_.forget(entry.first);
    return true;
  });
}

void CommitLog::send_commit(uint64_t counter) {
  const CommitTerms* terms = decider_.decision(counter);
  STARLING_CHECK(terms != nullptr);
  outbox_.send(unacknowledged_.at(counter).acceptor, Commit{id_of(counter), terms->blocks, terms->scale});
}

// Repeats to a silent peer become rare. Any frame from the peer shows that it can answer again, so they speed up.
void CommitLog::repeat_sooner(const PeerId* heard_from) {
  for (auto& [counter, repeat] : unacknowledged_) {
    if (repeat.backoff <= kRepeatSoon || (heard_from != nullptr && repeat.acceptor != *heard_from)) continue;
    repeat.next_at = clock_.now();
    repeat.backoff = kRepeatSoon;
  }
}

void CommitLog::tick() {
  const TimePoint now = clock_.now();
  for (auto& [counter, repeat] : unacknowledged_) {
    if (repeat.next_at > now) continue;
    send_commit(counter);
    repeat.backoff = std::min(2 * repeat.backoff, kRepeatMax);
    repeat.next_at = now + repeat.backoff;
  }
}

TimePoint CommitLog::next_deadline() const {
  TimePoint next = TimePoint::max();
  for (const auto& [counter, repeat] : unacknowledged_) next = std::min(next, repeat.next_at);
  return next;
}

}  // namespace starling
