// The side that begins an exchange and decides it.
#include <algorithm>
#include <utility>

#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/pairwise_impl.h"
#include "gossip/exchange/weight.h"
#include "kernels/check.h"

namespace starling {

bool Pairwise::Impl::propose(const PeerId& peer) {
  if (snapshot == nullptr || peer == options.self || under_way_with(peer)) return false;
  const double offer = budget.take();
  if (offer == 0) return false;

  // Whole milliseconds on the wire: this side waits for exactly what it announces.
  const auto deadline_ms = std::chrono::ceil<std::chrono::milliseconds>(deadline.current());
  const ExchangeId xid{options.self, options.generation, ++last_counter};
  PairExchange& exchange = add_exchange(xid, peer, offer, deadline_ms);
  exchange.initiated = true;
  decider.open(xid.counter, peer);
  ++counters.initiated;
  outbox.send(peer, Propose{.xid = xid, .offer = offer, .mass = exchange.own->mass,
                            .round = exchange.own->round,
                            .deadline_ms = static_cast<uint32_t>(deadline_ms.count()),
                            .credit = exchange.blocks.credit()});
  if (payload_bytes_total <= kEagerBytesMax) {   // a small model: a refusal wastes less than a latency costs
    exchange.send_credit = static_cast<uint32_t>(exchange.blocks.count());
    send_blocks(exchange);
  }
  return true;
}

void Pairwise::Impl::on_accept(const PeerId& from, uint64_t generation, const Accept& accept) {
  PairExchange* exchange = find(accept.xid, from);
  if (exchange == nullptr || !exchange->initiated || exchange->agreed) return ignore();
  if (!share_is_sane(accept.offer) || !mass_is_sane(accept.mass)) {
    ignore();
    return give_up(*exchange, ExchangeOutcome::kFailed);
  }
  exchange->agreed = true;
  exchange->peer_generation = generation;
  exchange->peer_offer = accept.offer;
  exchange->peer_mass = accept.mass;
  exchange->peer_round = accept.round;
  exchange->round_trip = clock.now() - exchange->started_at;
  exchange->send_credit = std::max(exchange->send_credit, accept.credit);
  send_blocks(*exchange);
  try_decide(*exchange);   // the vote may have overtaken this
}

void Pairwise::Impl::on_busy(const PeerId& from, const Busy& busy) {
  PairExchange* exchange = find(busy.xid, from);
  if (exchange == nullptr || !exchange->initiated) return ignore();
  ++counters.busy_received;
  exchange->free_in = std::chrono::milliseconds(busy.free_in_ms);
  decider.abort(busy.xid.counter);   // the acceptor left before any vote: no need to tell it
  finish_failed(*exchange, exchange->agreed ? ExchangeOutcome::kFailed : ExchangeOutcome::kBusy);
}

void Pairwise::Impl::on_have(const PeerId& from, const Have& have) {
  if (have.xid.proposer != options.self) return ignore();
  const bool own_life = have.xid.generation == options.generation;
  PairExchange* exchange = find(have.xid, from);
  const bool readable = fits(have.blocks, layout.blocks.size()) && scale_is_sane(have.scale);
  if (exchange != nullptr && !readable) return ignore();
  const CommitTerms vote{have.blocks, have.scale};
  const CommitAnswer what = own_life ? decider.on_have(have.xid.counter, from, vote) : CommitAnswer::kAbort;
  if (what != CommitAnswer::kNone) {
    for (Late& entry : late) {
      if (entry.xid == have.xid && entry.peer == from) entry.last_arrival = clock.now();
    }
    return answer(from, have.xid, what);
  }
  STARLING_CHECK(exchange != nullptr);
  exchange->last_arrival = clock.now();
  if (have.scale < ClipGuard::kScaleMin) return give_up(*exchange, ExchangeOutcome::kFailed);
  try_decide(*exchange);
}

void Pairwise::Impl::on_query(const PeerId& from, const Query& query) {
  if (query.xid.proposer != options.self) return ignore();
  const bool own_life = query.xid.generation == options.generation;
  const CommitAnswer what = own_life ? decider.on_query(query.xid.counter, from) : CommitAnswer::kAbort;
  PairExchange* exchange = find(query.xid, from);
  if (exchange != nullptr) finish_failed(*exchange, ExchangeOutcome::kFailed);   // the question aborted it
  answer(from, query.xid, what);
}

void Pairwise::Impl::answer(const PeerId& to, const ExchangeId& xid, CommitAnswer what) {
  if (what == CommitAnswer::kCommit) return send_commit(xid.counter);
  outbox.send(to, Abort{xid});
}

void Pairwise::Impl::on_ack(const PeerId& from, const CommitAck& ack) {
  const bool own = ack.xid.proposer == options.self && ack.xid.generation == options.generation;
  if (!own || !decider.on_ack(ack.xid.counter, from)) return ignore();
  commits.erase(ack.xid.counter);
}

// Decides once everything the acceptor voted for was judged here too; at the deadline with what there is.
void Pairwise::Impl::try_decide(PairExchange& exchange) {
  const TimePoint now = clock.now();
  const bool at_deadline = now >= exchange.deadline_at;
  const CommitTerms* vote = exchange.agreed ? decider.vote(exchange.xid.counter) : nullptr;
  if (!at_deadline && (vote == nullptr || !exchange.blocks.all_judged(vote->blocks))) return;

  CommitTerms mine{exchange.blocks.passed(), 1};
  const Bitmap both = vote != nullptr ? intersection(vote->blocks, mine.blocks) : Bitmap{};
  if (count_bits(both) == 0 || !pass_guard(exchange, both)) {
    if (at_deadline) {
      watch_late(exchange);
    } else {
      deadline.arrived(now - exchange.started_at);
    }
    return give_up(exchange, ExchangeOutcome::kFailed);
  }
  mine.scale = exchange.scale;
  const CommitTerms* terms = decider.commit(exchange.xid.counter, mine);
  STARLING_CHECK(terms != nullptr);
  const Duration first_repeat = std::clamp(2 * exchange.round_trip, kRepeatMin, kRepeatSoon);
  commits[exchange.xid.counter] = {exchange.peer, exchange.peer_generation, now + first_repeat, first_repeat};
  if (at_deadline) {
    watch_late(exchange);
  } else {
    deadline.arrived(now - exchange.started_at);
  }
  send_commit(exchange.xid.counter);
  finish_applied(exchange, *terms);
}

void Pairwise::Impl::give_up(PairExchange& exchange, ExchangeOutcome outcome) {
  STARLING_CHECK(decider.abort(exchange.xid.counter));
  outbox.send(exchange.peer, Abort{exchange.xid});
  finish_failed(exchange, outcome);
}

void Pairwise::Impl::send_commit(uint64_t counter) {
  const CommitTerms* terms = decider.decision(counter);
  STARLING_CHECK(terms != nullptr);
  const ExchangeId xid{options.self, options.generation, counter};
  outbox.send(commits.at(counter).acceptor, Commit{xid, terms->blocks, terms->scale});
}

void Pairwise::Impl::tick_commits() {
  const TimePoint now = clock.now();
  for (auto& [counter, repeat] : commits) {
    if (repeat.next_at > now) continue;
    send_commit(counter);
    repeat.backoff = std::min(2 * repeat.backoff, kRepeatMax);
    repeat.next_at = now + repeat.backoff;
  }
}

// ---- what comes after the deadline ----

void Pairwise::Impl::watch_late(const PairExchange& exchange) {
  if (late.size() >= kLateMax) late.erase(late.begin());
  late.push_back({exchange.xid, exchange.peer, exchange.started_at, exchange.deadline_at + exchange.deadline,
                  exchange.deadline, exchange.last_arrival});
}

void Pairwise::Impl::tick_late() {
  const TimePoint now = clock.now();
  std::erase_if(late, [&](const Late& entry) {
    if (entry.expires_at > now) return false;
    if (entry.last_arrival) {
      deadline.arrived(*entry.last_arrival - entry.started_at);
    } else {
      deadline.missed(entry.deadline);
    }
    return true;
  });
}

}  // namespace starling
