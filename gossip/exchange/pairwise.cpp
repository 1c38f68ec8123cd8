#include "gossip/exchange/pairwise.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gossip/exchange/bitmap.h"
#include "gossip/exchange/pairwise_impl.h"
#include "gossip/exchange/weight.h"
#include "kernels/check.h"

namespace starling {

Pairwise::Impl::Impl(const PairwiseOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
                     const Clock& clock, Outbox& outbox)
    : options(options), layout(layout), codec(codec), worker(worker), clock(clock), outbox(outbox),
      deadline(options.deadline_min, options.deadline_max), guard(options.clip) {
  STARLING_CHECK(!layout.blocks.empty() && layout.blocks.size() <= kBlocksMax);
  STARLING_CHECK(options.deadline_min.count() > 0 && options.deadline_min <= options.deadline_max);
  size_t largest = 1;
  for (const Block& block : layout.blocks) {
    payload_bytes_max.push_back(codec.payload_bytes_max(block.element_count));
    payload_bytes_total += payload_bytes_max.back();
    largest = std::max(largest, payload_bytes_max.back());
  }
  window = static_cast<uint32_t>(std::max<size_t>(2, kCreditBytes / largest));
}

// ---- exchanges ----

PairExchange& Pairwise::Impl::add_exchange(const ExchangeId& xid, const PeerId& peer, double own_offer,
                                       Duration deadline) {
  const TimePoint now = clock.now();
  PairExchange exchange{.xid = xid, .peer = peer, .own = snapshot, .own_offer = own_offer, .started_at = now,
                    .deadline_at = now + deadline, .deadline = deadline,
                    .blocks = PeerBlocks(layout.blocks.size(), window)};
  return exchanges.emplace(xid, std::move(exchange)).first->second;
}

PairExchange* Pairwise::Impl::find(const ExchangeId& xid, const PeerId& from) {
  const auto it = exchanges.find(xid);
  return it != exchanges.end() && it->second.peer == from ? &it->second : nullptr;
}

bool Pairwise::Impl::under_way_with(const PeerId& peer) const {
  const bool open = std::any_of(exchanges.begin(), exchanges.end(),
                                [&](const auto& entry) { return entry.second.peer == peer; });
  return open || decider.waits_for_ack_from(peer);
}

void Pairwise::Impl::report(const PairExchange& exchange, ExchangeOutcome outcome, uint32_t blocks_mixed) {
  if (reports.size() >= kReportsMax) reports.erase(reports.begin());
  ExchangeReport& report = reports.emplace_back();
  report.peer = exchange.peer;
  report.initiated = exchange.initiated;
  report.outcome = outcome;
  report.duration = clock.now() - exchange.started_at;
  report.blocks_mixed = blocks_mixed;
  report.blocks_total = static_cast<uint32_t>(layout.blocks.size());
  report.payload_bytes_sent = exchange.bytes_sent;
  report.payload_bytes_received = exchange.bytes_received;
  report.distance = exchange.distance;
  report.scale = exchange.scale;
  report.peer_round = exchange.peer_round;
  report.free_in = exchange.free_in;
}

void Pairwise::Impl::count_blocks(const PeerBlocks& blocks, const Bitmap& mixed) {
  for (size_t i = 0; i < blocks.count(); ++i) {
    const BlockVerdict verdict = blocks.verdict(i);
    const bool refused = verdict == BlockVerdict::kRefused || verdict == BlockVerdict::kLeftOut;
    ++tally.due;
    ++(test_bit(mixed, i) ? tally.counted : refused ? tally.refused : tally.missing);
  }
}

// Decided: the delta is queued and the exchange is gone from here on.
void Pairwise::Impl::finish_applied(PairExchange& exchange, const CommitTerms& terms) {
  keep_lessons(exchange);
  const double gain = terms.scale * std::min(exchange.own_offer, exchange.peer_offer);
  const double proposer_mass = exchange.initiated ? exchange.own->mass : exchange.peer_mass;
  const double acceptor_mass = exchange.initiated ? exchange.peer_mass : exchange.own->mass;
  const PairCoefficients both = pair_coefficients(gain, proposer_mass, acceptor_mass);

  count_blocks(exchange.blocks, terms.blocks);
  const bool late_blocks = exchange.blocks.late_outside(terms.blocks);
  PairDelta& delta = decided.emplace_back();
  delta.own.resize(layout.blocks.size());
  for (size_t i = 0; i < layout.blocks.size(); ++i) {
    if (test_bit(terms.blocks, i)) delta.own[i] = exchange.own->blocks[i];
  }
  delta.peer = exchange.blocks.take(terms.blocks);
  delta.blocks = terms.blocks;
  delta.coefficient = exchange.initiated ? both.proposer : both.acceptor;
  if (exchange.holds_share) decided_shares.push_back(exchange.own_offer);

  exchange.scale = terms.scale;
  exchange.distance = distance(exchange, terms.blocks);
  ++(late_blocks ? counters.late : counters.done);
  report(exchange, late_blocks ? ExchangeOutcome::kLate : ExchangeOutcome::kDone,
         static_cast<uint32_t>(count_bits(terms.blocks)));
  exchanges.erase(ExchangeId(exchange.xid));
}

// Over, and nothing was applied: its share can be offered again.
void Pairwise::Impl::finish_failed(PairExchange& exchange, ExchangeOutcome outcome) {
  keep_lessons(exchange);
  if (exchange.holds_share) budget.give_back(exchange.own_offer);
  if (outcome == ExchangeOutcome::kFailed) ++counters.failed;
  report(exchange, outcome, 0);
  exchanges.erase(ExchangeId(exchange.xid));
}

// ---- boundary ----

void Pairwise::Impl::retract() {
  retracted = snapshot != nullptr;
  snapshot = nullptr;
}

void Pairwise::Impl::publish(std::shared_ptr<const Snapshot> next, const SnapshotBudget& shares) {
  const bool had_one = snapshot != nullptr || retracted;
  retracted = false;
  const std::vector<Waiting> came_meanwhile = std::exchange(waiting, {});
  snapshot = nullptr;
  if (next != nullptr) {   // else nothing to share any more: exchanges under way end with the snapshots they have
    adopt(std::move(next), shares, had_one);
  } else {
    repeat_sooner(std::nullopt);
  }
  for (const Waiting& one : came_meanwhile) on_propose(one.from, one.generation, one.propose);
}

void Pairwise::Impl::adopt(std::shared_ptr<const Snapshot> next, const SnapshotBudget& shares, bool had_one) {
  STARLING_CHECK(next->blocks.size() == layout.blocks.size());
  STARLING_CHECK(mass_is_sane(next->mass));
  const TimePoint now = clock.now();
  if (had_one) publish_interval = now - published_at;
  published_at = now;
  snapshot = std::move(next);

  // What earlier snapshots promised and the new one does not contain yet still counts. Except for a doubt
  // that lasts: it moves the params once, whenever; it must not keep its share from the others.
  budget = shares;
  for (auto& [xid, exchange] : exchanges) {
    exchange.holds_share = exchange.holds_share && !(exchange.vote && now >= exchange.deadline_at);
    if (exchange.holds_share) budget.hold(exchange.own_offer);
  }
  for (double share : decided_shares) budget.hold(share);
}

// An own proposal that no life has accepted yet (generation 0) ends too: it was made to the life that is over.
void Pairwise::Impl::forget(const PeerId& peer, uint64_t generation) {
  std::vector<ExchangeId> gone;
  for (const auto& [xid, exchange] : exchanges) {
    if (exchange.peer == peer && exchange.peer_generation < generation) gone.push_back(xid);
  }
  voter.forget(peer, generation);
  for (const ExchangeId& xid : gone) {
    if (exchanges.at(xid).initiated) decider.forget(xid.counter);
    finish_failed(exchanges.at(xid), ExchangeOutcome::kFailed);
  }
  std::erase_if(commits, [&](const auto& entry) {
    if (entry.second.acceptor != peer || entry.second.generation >= generation) return false;
    decider.forget(entry.first);
    return true;
  });
  std::erase_if(late, [&](const Late& entry) { return entry.peer == peer; });
  std::erase_if(waiting, [&](const Waiting& one) { return one.from == peer && one.generation < generation; });
  stash.forget(peer);
  retry_votes();
}

// ---- messages ----

// An exchange is with one life of the peer. The next life knows nothing of it and must not vote in it; what
// comes late from the life before is void. False: ignore the message.
bool Pairwise::Impl::same_life(const PeerId& from, uint64_t generation) {
  uint64_t known = 0;
  for (const auto& [xid, exchange] : exchanges) {
    if (exchange.peer == from) known = std::max(known, exchange.peer_generation);
  }
  for (const auto& [counter, repeat] : commits) {
    if (repeat.acceptor == from) known = std::max(known, repeat.generation);
  }
  if (known != 0 && known < generation) forget(from, generation);
  return known <= generation;
}

// To a peer that did not answer COMMIT and QUERY are repeated ever more rarely. Whatever comes from it shows that it
// can answer again. nullopt: this agent will share no more and wants all its exchanges to end.
void Pairwise::Impl::repeat_sooner(const std::optional<PeerId>& heard_from) {
  const TimePoint now = clock.now();
  for (auto& [counter, repeat] : commits) {
    if (repeat.backoff <= kRepeatSoon || repeat.acceptor != heard_from.value_or(repeat.acceptor)) continue;
    repeat.next_at = now;
    repeat.backoff = kRepeatSoon;
  }
  for (auto& [xid, exchange] : exchanges) {
    if (exchange.query_backoff <= kRepeatSoon || exchange.peer != heard_from.value_or(exchange.peer)) continue;
    exchange.query_at = now;
    exchange.query_backoff = kRepeatSoon;
  }
}

void Pairwise::Impl::handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
                            const SharedBytes& payload) {
  if (from == options.self || !same_life(from, generation)) return ignore();
  repeat_sooner(from);
  if (const auto* m = std::get_if<Propose>(&message)) return on_propose(from, generation, *m);
  if (const auto* m = std::get_if<Accept>(&message)) return on_accept(from, generation, *m);
  if (const auto* m = std::get_if<Busy>(&message)) return on_busy(from, *m);
  if (const auto* m = std::get_if<BlockPayload>(&message)) return on_block(from, *m, payload);
  if (const auto* m = std::get_if<Credit>(&message)) return on_credit(from, *m);
  if (const auto* m = std::get_if<Have>(&message)) return on_have(from, *m);
  if (const auto* m = std::get_if<Commit>(&message)) return on_commit(from, *m);
  if (const auto* m = std::get_if<Abort>(&message)) return on_abort(from, generation, *m);
  if (const auto* m = std::get_if<CommitAck>(&message)) return on_ack(from, *m);
  if (const auto* m = std::get_if<Query>(&message)) return on_query(from, *m);
  ignore();
}

// ---- time ----

TimePoint Pairwise::Impl::next_event(const PairExchange& exchange) {
  if (exchange.vote) return exchange.parked ? exchange.query_at : std::min(exchange.query_at, exchange.park_at);
  return std::min(exchange.initiated ? exchange.deadline_at : exchange.vote_at, exchange.credit_repeat_at);
}

TimePoint Pairwise::Impl::next_deadline() const {
  TimePoint next = stash.next_expiry();
  for (const auto& [xid, exchange] : exchanges) next = std::min(next, next_event(exchange));
  for (const auto& [counter, repeat] : commits) next = std::min(next, repeat.next_at);
  for (const Late& entry : late) next = std::min(next, entry.expires_at);
  return next;
}

void Pairwise::Impl::tick() {
  const TimePoint now = clock.now();
  std::vector<ExchangeId> due;
  for (const auto& [xid, exchange] : exchanges) {
    if (next_event(exchange) <= now) due.push_back(xid);
  }
  for (const ExchangeId& xid : due) {
    const auto it = exchanges.find(xid);   // an earlier one may have ended it
    if (it != exchanges.end()) tick_exchange(it->second);
  }
  tick_commits();
  tick_late();
  stash.expire(now);
}

void Pairwise::Impl::tick_exchange(PairExchange& exchange) {
  const TimePoint now = clock.now();
  if (exchange.vote) {
    if (exchange.query_at <= now) ask_again(exchange);
    if (!exchange.parked && exchange.park_at <= now) park(exchange);   // may end an exchange
    return;
  }
  if (exchange.credit_repeat_at <= now) {   // the last CREDIT may be lost; blocks may wait for it
    outbox.send(exchange.peer, Credit{exchange.xid, exchange.blocks.credit()});
    exchange.credit_repeat_at = now + exchange.deadline / kCreditRepeats;
  }
  if (!exchange.initiated) {
    if (exchange.vote_at <= now) try_vote(exchange);
  } else if (exchange.deadline_at <= now) {
    try_decide(exchange);
  }
}

// ---- the public face ----

Pairwise::Pairwise(const PairwiseOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
                   const Clock& clock, Outbox& outbox, Company* company)
    : impl_(std::make_unique<Impl>(options, layout, codec, worker, clock, outbox)) {
  impl_->company = company;
}
Pairwise::~Pairwise() = default;

void Pairwise::publish(std::shared_ptr<const Snapshot> snapshot) {
  impl_->publish(std::move(snapshot), SnapshotBudget());
}
void Pairwise::serve(std::shared_ptr<const Snapshot> snapshot) {
  impl_->publish(std::move(snapshot), SnapshotBudget(1));
}
void Pairwise::retract() { impl_->retract(); }
bool Pairwise::propose(const PeerId& peer) { return impl_->propose(peer); }
std::optional<TimePoint> Pairwise::serving_until() const {
  std::optional<TimePoint> until;
  if (impl_->payload_bytes_total <= Impl::kSpareBytes) return until;
  for (const auto& [xid, exchange] : impl_->exchanges) {
    if (exchange.initiated) continue;
    // A decision takes no longer than all before it did; a lost one may take for ever.
    const TimePoint usual_end = exchange.vote ? exchange.voted_at + (exchange.voted_at - exchange.started_at)
                                              : exchange.deadline_at;
    const TimePoint end = std::min(usual_end, exchange.deadline_at);
    if (end > impl_->clock.now()) until = std::max(until.value_or(end), end);
  }
  return until;
}
bool Pairwise::begin() {
  STARLING_CHECK(impl_->company != nullptr);
  const std::optional<PeerId> partner = impl_->company->choose();
  return partner && impl_->propose(*partner);
}
bool Pairwise::under_way() const { return impl_->decider.is_open(impl_->last_counter); }
void Pairwise::handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
                      const SharedBytes& payload) {
  impl_->handle(from, generation, message, payload);
}
void Pairwise::tick() { impl_->tick(); }
TimePoint Pairwise::next_deadline() const { return impl_->next_deadline(); }
void Pairwise::forget(const PeerId& peer, uint64_t generation) { impl_->forget(peer, generation); }

Decided Pairwise::take_decided() {
  impl_->decided_shares.clear();   // the next snapshot will contain them
  Decided taken{std::exchange(impl_->decided, {}), {}};
  for (std::vector<BlockLesson>& of_one : std::exchange(impl_->lessons, {})) {
    std::move(of_one.begin(), of_one.end(), std::back_inserter(taken.lessons));
  }
  return taken;
}
std::vector<ExchangeReport> Pairwise::take_reports() { return std::exchange(impl_->reports, {}); }
bool Pairwise::in_doubt() const { return impl_->voter.in_doubt_count() > 0; }
bool Pairwise::idle() const { return impl_->exchanges.empty() && impl_->decider.empty(); }

const BlockTally& Pairwise::block_tally() const { return impl_->tally; }
ExchangeStatus Pairwise::status() const {
  return {.under_way = under_way(), .idle = idle(), .retries = true, .latencies = 2,
          .usual_duration = impl_->deadline.usual(), .serving_until = serving_until(), .block_tally = block_tally(),
          .doubts_broken = impl_->counters.doubts_broken};
}
const PairwiseCounters& Pairwise::counters() const { return impl_->counters; }
Duration Pairwise::current_deadline() const { return impl_->deadline.current(); }

}  // namespace starling
