#include "gossip/pairs/turn_admission.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "gossip/exchange/coefficients.h"

namespace starling {

bool TurnAdmission::free() const {
  return ledger_.snapshot() != nullptr && !proposer_.is_asking() && !acceptor_.in_turn();
}

bool TurnAdmission::is_sane(const PeerId& from, uint64_t generation, const Propose& propose) const {
  const ExchangeId& xid = propose.xid;
  return xid.proposer == from && xid.generation == generation && offer_is_sane(propose.offer) &&
         mass_is_sane(propose.mass) && propose.fragment < blocks_.fragments();
}

void TurnAdmission::on_propose(const PeerId& from, uint64_t generation, const Propose& propose) {
  if (!is_sane(from, generation, propose)) return ledger_.ignore();
  if (acceptor_.seen(propose.xid)) return ask_again(from, propose);
  const auto same = [&](const Waiting& one) { return one.propose.xid == propose.xid; };
  if (std::any_of(waiting_.begin(), waiting_.end(), same)) return;  // asked again: it keeps its place
  std::erase_if(waiting_, [&](const Waiting& one) { return one.from == from; });
  acceptor_.supersede(from);
  if (ledger_.snapshot() == nullptr && !ledger_.retracted()) return refuse(propose, options_.soon());
  if (crossing(from, generation, propose)) return;
  if (const auto barred = barred_for(from)) return refuse(propose, *barred);
  admit(from, generation, propose);
}

// ---- one peer's share ----

void TurnAdmission::ended(const PairExchange& exchange, bool decided) {
  if (decided) {
    shares_.decided(exchange.peer, exchange.initiated);
    if (exchange.initiated) return exchange.scheduled ? void() : count_met(exchange.peer);
    // Its payload is spent: who had it is told when to come again, before it asks in vain.
    if (const auto next_at = ledger_.next_at()) {
      acceptor_.say_busy(exchange.xid, appointment_in(exchange.peer, *next_at));
    }
    return;
  }
  const TimePoint now = clock_.now();
  shares_.undecided(exchange.peer, exchange.initiated, exchange.agreed, now, options_.bar(now - exchange.started_at));
}

// Who keeps this agent in doubt, or let turns end undecided, is told to come back later. nullopt: it may be served.
std::optional<Duration> TurnAdmission::barred_for(const PeerId& from) const {
  if (acceptor_.overdue_with(from)) return proposer_.turn_deadline();
  const Duration left = shares_.not_served_until(from) - clock_.now();
  return left > Duration::zero() ? std::optional(left) : std::nullopt;
}

// Its slots of the schedule are its own.
bool TurnAdmission::had_its_share(const PeerId& from, const Propose& propose, uint64_t boundary) const {
  if (sampler_ == nullptr || schedule_.expects(from, propose.slot)) return false;
  return !shares_.may_be_served(from, boundary, candidates_);
}

void TurnAdmission::count_served(const PeerId& from, const Propose& propose, uint64_t boundary) {
  if (sampler_ != nullptr && !schedule_.expects(from, propose.slot)) shares_.served(from, boundary, candidates_);
}

void TurnAdmission::count_met(const PeerId& peer) {
  if (sampler_ != nullptr) shares_.met(peer, ledger_.boundary(), candidates_);
}

void TurnAdmission::add_asked_later(std::vector<PeerId>& peers) const {
  for (const auto& [peer, not_before] : not_before_) {
    if (clock_.now() < not_before) peers.push_back(peer);
  }
}

// ---- turns ----

// The answer, or the proposal that crossed this one, may be lost.
void TurnAdmission::ask_again(const PeerId& from, const Propose& propose) {
  if (acceptor_.answer_again(propose.xid, from)) return;
  if (ProposedExchange* own = proposer_.crossed_by(propose.xid, from)) return proposer_.ask_again(*own);
  outbox_.send(from, Busy{propose.xid, 0});
}

// Both ends see both proposals and say the same. Always the smaller id's would give it up to half more exchanges.
bool TurnAdmission::own_stands(const ExchangeId& own, const ExchangeId& other) const {
  const bool smaller = own.proposer < other.proposer;
  return (own.counter + other.counter) % 2 == 0 ? smaller : !smaller;
}

// Two proposals that cross become one exchange. True: this was one of them, and is dealt with.
bool TurnAdmission::crossing(const PeerId& from, uint64_t generation, const Propose& propose) {
  ProposedExchange* own = proposer_.asking();
  if (own == nullptr || own->peer != from) return false;
  if (propose.blocks_first && !own->blocks_first) return false;  // it waits; ours is told BUSY
  if (own->blocks_first) {
    refuse(propose, Duration::zero());
    return true;
  }
  if (own->crossed || own->agreed) return false;  // of a peer that has voted on ours and is free: its next one
  const bool same_blocks = own->fragment == propose.fragment;  // else those that were sent serve neither exchange
  if (own_stands(own->xid, propose.xid)) {
    acceptor_.refuse(propose.xid);
    std::vector<EarlyPairBlocks::Item> items = early_.take(propose.xid);
    if (!same_blocks) return true;  // the peer accepts ours, and sends what it asks for
    proposer_.cross(*own, generation, propose);
    for (EarlyPairBlocks::Item& item : items) (void)proposer_.on_crossed_block(from, item.block, item.payload);
    return true;
  }
  if (acceptor_.full()) {  // no vote could follow, and both would wait for it until the deadline
    proposer_.give_up(*own, ExchangeOutcome::kBusy);
    refuse(propose, proposer_.deadline().current());
    return true;
  }
  if (!own->scheduled) count_met(from);
  const bool sent = own->send_credit > 0 && same_blocks;
  begin_turn(from, propose, {.own = proposer_.yield(*own), .sent = sent, .crossed = same_blocks});
  return true;
}

void TurnAdmission::admit(const PeerId& from, uint64_t generation, const Propose& propose) {
  const Duration left = std::min<Duration>(std::chrono::milliseconds(propose.deadline_ms), options_.deadline_max);
  const uint64_t boundary = ledger_.boundary() + (free() ? 0 : 1);
  const std::optional<TimePoint> next_at = ledger_.next_at();
  schedule_.heard(from, propose.slot);
  if (had_its_share(from, propose, boundary)) {
    return refuse_over_share(propose, next_at ? appointment_in(from, *next_at) : Duration::zero());
  }
  if (only_asks_) return refuse(propose, Duration::zero());
  if (free() && ready(propose)) {
    if (acceptor_.full()) return refuse(propose, proposer_.deadline().current());
    count_served(from, propose, boundary);
    return begin_turn(from, propose, {.own = ledger_.snapshot()});
  }
  const TimePoint ring_at = own_answer_due();
  const bool ring = closes_ring(from, propose) && ring_at <= clock_.now();
  if (ring) ++ledger_.counters().rings;
  if (ring || waiting_.size() >= kWaitingMax) return refuse(propose, Duration::zero());
  if (next_at && !propose.blocks_first) return refuse(propose, appointment_in(from, *next_at));
  count_queued();
  waiting_.push_back({from, generation, propose, clock_.now(), clock_.now() + left, ring_at});
}

// From now until the steps begin that the peer shall ask in: its share allows that, and nobody else shall.
Duration TurnAdmission::appointment_in(const PeerId& from, TimePoint next_at) {
  const Duration next_in = next_at - clock_.now();
  if (sampler_ == nullptr) return next_in;
  const uint64_t boundary = ledger_.boundary(), chosen = shares_.appointment(from, boundary, candidates_);
  return next_in + (chosen - boundary - 1) * ledger_.steps_time();
}

// Only of a peer that makes appointments, which it tells unasked: others are busy for one exchange, and say longer.
void TurnAdmission::ask_later(const PeerId& peer, Duration free_in, bool unasked) {
  if (!unasked && !not_before_.contains(peer)) return;
  if (not_before_.size() >= kMembersMax) not_before_.clear();
  not_before_[peer] = clock_.now() + std::min(free_in, kAppointments * options_.deadline_max);
}

void TurnAdmission::count_queued() {
  const ProposedExchange* own = proposer_.asking();
  PairwiseCounters& counters = ledger_.counters();
  ++counters.queued;
  counters.queued_turn += acceptor_.in_turn() || (own != nullptr && own->agreed);
  counters.queued_asking += own != nullptr && !own->agreed;
}

// While this agent asks its partner of a slot, only who is in a later one waits until that has answered. Asking
// another, it lets whoever has it for partner wait, and of the others smaller ids. Whose blocks take long lets nobody
// wait, and so may wait for anybody.
bool TurnAdmission::closes_ring(const PeerId& from, const Propose& propose) const {
  const ProposedExchange* own = proposer_.asking();
  if (own == nullptr || own->agreed || own->crossed || propose.blocks_first) return false;
  if (own->blocks_first) return true;
  if (own->scheduled) return !schedule_.reckons_alike(from, propose.slot) || propose.slot <= own->own_slot;
  const bool expected = schedule_.expects(from, propose.slot);
  return !expected && options_.self < from;
}

// When an agent that is free would have answered the own proposal; in the past while none is open.
TimePoint TurnAdmission::own_answer_due() const {
  const ProposedExchange* own = proposer_.asking();
  const Duration round_trip = ledger_.round_trip();
  return own == nullptr ? TimePoint{} : own->started_at + round_trip + round_trip / 8;
}

size_t TurnAdmission::waiting() const {
  const auto is_ready = [this](const Waiting& one) { return ready(one); };
  return static_cast<size_t>(std::count_if(waiting_.begin(), waiting_.end(), is_ready));
}

size_t TurnAdmission::may_be_served() const {
  const auto may = [this](const Waiting& one) {
    return ready(one) && !had_its_share(one.from, one.propose, ledger_.boundary());
  };
  return static_cast<size_t>(std::count_if(waiting_.begin(), waiting_.end(), may));
}

// Blocks come in order: those that lack when the last one is here are lost, and its turn asks for them.
bool TurnAdmission::ready(const Propose& propose) const {
  return !propose.blocks_first || early_.holds(propose.xid, blocks_.last_of(propose.fragment));
}

// And its proposer still waits when ACCEPT comes.
bool TurnAdmission::ready(const Waiting& one) const {
  return ready(one.propose) && clock_.now() + ledger_.round_trip() <= one.expires_at;
}

bool TurnAdmission::serve_next() {
  const auto earlier = [this](const Waiting& a, const Waiting& b) {
    return sampler_ != nullptr && sampler_->last_met(a.from) < sampler_->last_met(b.from);
  };
  const auto unready = [this](const Waiting& one) { return !ready(one); };
  for (;;) {
    const auto ready_end = std::stable_partition(waiting_.begin(), waiting_.end(), std::not_fn(unready));
    if (ready_end == waiting_.begin()) return false;
    if (begin_waiting(std::min_element(waiting_.begin(), ready_end, earlier))) return true;
  }
}

bool TurnAdmission::serve(const PeerId& peer) {
  const auto its = std::find_if(waiting_.begin(), waiting_.end(),
                                [&](const Waiting& one) { return one.from == peer && ready(one); });
  return its != waiting_.end() && begin_waiting(its);
}

// It leaves the queue. False: it may not be served.
bool TurnAdmission::begin_waiting(std::vector<Waiting>::iterator next) {
  const Waiting one = *next;
  waiting_.erase(next);
  if (acceptor_.seen(one.propose.xid)) {  // its proposer has aborted a later one
    (void)early_.take(one.propose.xid);
    return false;
  }
  if (had_its_share(one.from, one.propose, ledger_.boundary())) {
    const std::optional<TimePoint> next_at = ledger_.next_at();
    refuse_over_share(one.propose, next_at ? appointment_in(one.from, *next_at) : proposer_.deadline().current());
    return false;
  }
  if (acceptor_.full()) {
    refuse(one.propose, proposer_.deadline().current());
    return false;
  }
  count_served(one.from, one.propose, ledger_.boundary());
  begin_turn(one.from, one.propose, {.own = ledger_.snapshot(), .waited = clock_.now() - one.since});
  return true;
}

void TurnAdmission::asked() {
  for (Waiting& one : waiting_) one.ring_at = std::max(one.ring_at, own_answer_due());
}

// The proposer waits for a turn as long as it said, and for the exchange from its first sign on.
void TurnAdmission::begin_turn(const PeerId& from, const Propose& propose, PairAcceptor::Turn turn) {
  turn.slot = schedule_.slot();
  turn.scheduled = schedule_.expects(from, propose.slot);
  turn.left = untried(from, false) ? proposer_.brief_turn() : proposer_.turn_deadline();
  acceptor_.accept(from, propose, turn);
  for (EarlyPairBlocks::Item& item : early_.take(propose.xid)) on_block(from, item.block, item.payload);
}

void TurnAdmission::refuse_waiting() {
  for (const Waiting& one : std::exchange(waiting_, {})) refuse(one.propose, options_.soon());
}

void TurnAdmission::refuse(const Propose& propose, Duration free_in) {
  (void)early_.take(propose.xid);
  acceptor_.refuse(propose.xid, free_in);
}

void TurnAdmission::refuse_over_share(const Propose& propose, Duration free_in) {
  ++ledger_.counters().over_share;
  refuse(propose, free_in);
}

void TurnAdmission::on_block(const PeerId& from, const BlockPayload& block, const SharedBytes& payload) {
  if (proposer_.on_crossed_block(from, block, payload) || acceptor_.on_block(from, block, payload)) return;
  const bool early = block.xid.proposer == from && !acceptor_.seen(block.xid) && blocks_.may_come_early();
  const bool held = early && early_.add(block, payload, clock_.now() + options_.deadline_max);
  if (!held) return ledger_.ignore();
  if (free()) serve(from);
}

bool TurnAdmission::on_abort(const PeerId& from, const Abort& abort) {
  if (ProposedExchange* own = proposer_.crossed_by(abort.xid, from)) {  // it has not taken ours for the one given up
    proposer_.give_up(*own, ExchangeOutcome::kFailed);
    return true;
  }
  const size_t left =
      std::erase_if(waiting_, [&](const Waiting& one) { return one.from == from && one.propose.xid == abort.xid; });
  if (left > 0) (void)early_.take(abort.xid);
  return left > 0;
}

void TurnAdmission::forget(const PeerId& peer, uint64_t generation) {
  std::erase_if(waiting_, [&](const Waiting& one) { return one.from == peer && one.generation < generation; });
  early_.forget(peer);
  not_before_.erase(peer);
}

void TurnAdmission::tick() {
  const TimePoint now = clock_.now();
  early_.expire(now);
  ledger_.counters().expired += std::erase_if(waiting_, [&](const Waiting& one) {
    if (one.expires_at > now) return false;
    acceptor_.refuse(one.propose.xid);
    return true;
  });
  refuse_rings();
}

// One that was let wait while the own proposal might have been answered any moment waits on only if it was.
void TurnAdmission::refuse_rings() {
  const auto may_close = [this](const Waiting& one) {
    return one.ring_at <= clock_.now() && closes_ring(one.from, one.propose);
  };
  const auto rings = std::stable_partition(waiting_.begin(), waiting_.end(), std::not_fn(may_close));
  const std::vector<Waiting> refused(rings, waiting_.end());
  waiting_.erase(rings, waiting_.end());
  ledger_.counters().rings += refused.size();
  for (const Waiting& one : refused) refuse(one.propose, Duration::zero());
}

TimePoint TurnAdmission::next_deadline() const {
  TimePoint next = early_.next_expiry();
  for (const Waiting& one : waiting_) {
    next = std::min(next, closes_ring(one.from, one.propose) ? std::min(one.expires_at, one.ring_at) : one.expires_at);
  }
  return next;
}

}  // namespace starling
