#include "gossip/exchange/pair_turns.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/check.h"

namespace starling {
namespace {

constexpr Duration kWaitMax = std::chrono::milliseconds(250);
constexpr int kWaitRoundTrips = 2;

PairwiseOptions by_turns(PairwiseOptions options) {
  options.by_turns = true;
  return options;
}

}  // namespace

PairTurns::PairTurns(const PairwiseOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
                     const Clock& clock, Outbox& outbox, PeerSampler* sampler)
    : self_(options.self), sampler_(sampler),
      blocks_(layout, codec, worker, clock, outbox,
              [this](const ExchangeId& xid, const PeerId& peer, uint32_t index, BlockVerdict verdict,
                     const PairStats& stats) {
                routes_.on_judged(xid, peer, index, verdict, stats);
                times_.is(part());
              },
              options.fragments, TurnAdmission::kEagerBytesMax),
      ledger_(by_turns(options), layout, blocks_, clock), proposer_(options, ledger_, blocks_, clock, outbox),
      acceptor_(options, ledger_, blocks_, clock, outbox),
      admission_(options, ledger_, blocks_, proposer_, acceptor_, clock, outbox, sampler),
      routes_(self_, ledger_, proposer_, acceptor_, admission_),
      turns_due_(options.turns), wait_max_(std::min(options.deadline_max / 2, kWaitMax)), times_(clock) {
  STARLING_CHECK(options.deadline_min.count() > 0 && options.deadline_min <= options.deadline_max);
  ledger_.on_busy_for = [this](const PeerId& peer, Duration free_in, bool unasked) {
    admission_.ask_later(peer, free_in, unasked);
  };
  ledger_.on_met = [this](const PeerId& peer, bool mixed) {
    if (mixed && !admission_.suspects(peer)) ++turns_;
    if (!mixed) admission_.refused(peer);
    if (sampler_ != nullptr) sampler_->met(peer);
  };
  ledger_.on_ended = [this](const PairExchange& exchange, bool decided) { admission_.ended(exchange, decided); };
}

// ---- turns ----

// Who waits is served first: with an own proposal open, a larger id in the queue could close a ring.
bool PairTurns::propose(const PeerId& peer) {
  if (peer == self_ || !free() || waiting() > 0) return false;
  acceptor_.answer_again(peer);   // who lacks the vote on its proposal takes this one for one that crosses it
  const bool begun = proposer_.propose(peer, admission_.patience_with(peer));
  times_.is(part());
  return begun;
}

bool PairTurns::serve() {
  const bool begun = free() && admission_.serve_next();
  times_.is(part());
  return begun;
}

bool PairTurns::begin() {
  STARLING_CHECK(sampler_ != nullptr);
  const bool begun = next_turn();
  times_.is(part());
  return begun;
}

bool PairTurns::next_turn() {
  if (!free()) return false;
  if (admission_.serve_next()) return true;
  // Whose earlier exchange is not settled yet is asked only if there is nobody else, and who said that it is busy for
  // longer only after those.
  std::vector<PeerId> not_asked = admission_.not_asked();
  proposer_.add_owing(not_asked);
  std::vector<PeerId> later = not_asked;
  admission_.add_asked_later(later);
  std::vector<PeerId> unsettled = later;
  for (const PeerId& peer : proposer_.peers()) unsettled.push_back(peer);
  for (const PeerId& peer : acceptor_.peers()) unsettled.push_back(peer);
  std::optional<PeerId> partner = sampler_->choose(unsettled);
  if (!partner && unsettled.size() > later.size()) partner = sampler_->choose(later);
  if (!partner && later.size() > not_asked.size()) partner = sampler_->choose(not_asked);
  return partner && propose(*partner);
}

void PairTurns::publish(std::shared_ptr<const Snapshot> snapshot) {
  if (snapshot != nullptr) {
    ledger_.adopt(std::move(snapshot), SnapshotBudget(1));
  } else {
    ledger_.withdraw();
    routes_.repeat_sooner(nullptr);
    admission_.refuse_waiting();
  }
  times_.is(part());
}

// ---- time ----

TimePoint PairTurns::next_deadline() const { return std::min(routes_.next_deadline(), acceptor_.free_at()); }

// Waiting for another's steps pays while it costs no more than the exchange itself.
Duration PairTurns::wait_max() const {
  const Duration round_trip = ledger_.round_trip();
  return round_trip == Duration::zero() ? wait_max_ : std::min(wait_max_, kWaitRoundTrips * round_trip);
}

// A second exchange with the only partner mixes nothing new.
uint64_t PairTurns::turns_due() const {
  if (turns_due_ == 1 || sampler_ == nullptr) return turns_due_;
  return std::clamp<uint64_t>(sampler_->candidates().size(), 1, turns_due_);
}

// ---- counts ----

// A payload left behind is served during the steps, which costs no time.
TurnTimes::Part PairTurns::part() {
  if (const ProposedExchange* own = proposer_.asking()) {
    return own->agreed || own->crossed ? TurnTimes::Part::kOwn : TurnTimes::Part::kAsking;
  }
  return acceptor_.in_turn() && !ledger_.next_at() ? TurnTimes::Part::kServing : TurnTimes::Part::kNone;
}

ExchangeStatus PairTurns::status() const {
  return {.under_way = under_way(), .idle = idle(), .retries = true, .latencies = 1, .by_turns = true,
          .fresh = fresh(), .turns = turns_, .turns_due = turns_due(), .waiting = admission_.may_be_served(),
          .wait_max = wait_max(), .usual_duration = proposer_.deadline().usual(),
          .block_tally = block_tally(), .pairs = counters(), .doubts_parked = acceptor_.parked_doubts()};
}

PairwiseCounters PairTurns::counters() const {
  PairwiseCounters counters = ledger_.counters();
  counters.blocks_refused = blocks_.counts().refused;
  counters.blocks_left_out = blocks_.counts().left_out;
  counters.asking_us = times_.us(TurnTimes::Part::kAsking);
  counters.own_us = times_.us(TurnTimes::Part::kOwn);
  counters.serving_us = times_.us(TurnTimes::Part::kServing);
  return counters;
}

}  // namespace starling
