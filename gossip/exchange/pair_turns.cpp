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
                     const PairStats& stats) { on_judged(xid, peer, index, verdict, stats); },
              TurnAdmission::kEagerBytesMax),
      ledger_(by_turns(options), layout, blocks_, clock), proposer_(options, ledger_, blocks_, clock, outbox),
      acceptor_(options, ledger_, blocks_, clock, outbox),
      admission_(options, ledger_, blocks_, proposer_, acceptor_, clock, outbox, sampler),
      wait_max_(std::min(options.deadline_max / 2, kWaitMax)) {
  STARLING_CHECK(options.deadline_min.count() > 0 && options.deadline_min <= options.deadline_max);
  ledger_.on_met = [this](const PeerId& peer, bool mixed) {
    if (mixed) ++turns_;
    if (sampler_ != nullptr) sampler_->met(peer);
  };
}

// ---- turns ----

// Who waits is served first: with an own proposal open, a larger id in the queue could close a ring.
bool PairTurns::propose(const PeerId& peer) {
  return peer != self_ && free() && waiting() == 0 && proposer_.propose(peer);
}

bool PairTurns::serve() { return free() && admission_.serve_next(); }

bool PairTurns::begin() {
  STARLING_CHECK(sampler_ != nullptr);
  if (!free()) return false;
  if (admission_.serve_next()) return true;
  // Whose earlier exchange is not settled yet is asked only if there is nobody else.
  std::vector<PeerId> unsettled = proposer_.peers();
  for (const PeerId& peer : acceptor_.peers()) unsettled.push_back(peer);
  std::optional<PeerId> partner = sampler_->choose(unsettled);
  if (!partner && !unsettled.empty()) partner = sampler_->choose({});
  return partner && propose(*partner);
}

void PairTurns::publish(std::shared_ptr<const Snapshot> snapshot) {
  if (snapshot != nullptr) return ledger_.adopt(std::move(snapshot), SnapshotBudget(1));
  ledger_.withdraw();
  proposer_.repeat_sooner(nullptr);
  acceptor_.repeat_sooner(nullptr);
  admission_.refuse_waiting();
}

// ---- messages ----

// An exchange is with one process (generation) of the peer, as in Pairwise.
bool PairTurns::same_life(const PeerId& from, uint64_t generation) {
  const uint64_t known = std::max(proposer_.generation_of(from), acceptor_.generation_of(from));
  if (known != 0 && known < generation) forget(from, generation);
  return known <= generation;
}

void PairTurns::forget(const PeerId& peer, uint64_t generation) {
  proposer_.forget(peer, generation);
  admission_.forget(peer, generation);
  acceptor_.forget(peer, generation);
}

void PairTurns::handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
                       const SharedBytes& payload) {
  if (from == self_ || !same_life(from, generation)) return ledger_.ignore();
  proposer_.repeat_sooner(&from);
  acceptor_.repeat_sooner(&from);
  const auto ours = [this](const ExchangeId& xid) { return xid.proposer == self_; };
  if (const auto* m = std::get_if<Propose>(&message)) return admission_.on_propose(from, generation, *m);
  if (const auto* m = std::get_if<Accept>(&message)) return proposer_.on_accept(from, generation, *m);
  if (const auto* m = std::get_if<Busy>(&message)) return proposer_.on_busy(from, *m);
  if (const auto* m = std::get_if<Have>(&message)) return proposer_.on_have(from, *m);
  if (const auto* m = std::get_if<Query>(&message)) return proposer_.on_query(from, *m);
  if (const auto* m = std::get_if<CommitAck>(&message)) return proposer_.on_ack(from, *m);
  if (const auto* m = std::get_if<Commit>(&message)) return acceptor_.on_commit(from, *m);
  if (const auto* m = std::get_if<Abort>(&message)) {
    if (!admission_.on_abort(from, *m)) acceptor_.on_abort(from, generation, *m);
    return;
  }
  if (const auto* m = std::get_if<BlockPayload>(&message)) {
    return ours(m->xid) ? proposer_.on_block(from, *m, payload) : admission_.on_block(from, *m, payload);
  }
  if (const auto* m = std::get_if<Credit>(&message)) {
    return ours(m->xid) ? proposer_.on_credit(from, *m) : acceptor_.on_credit(from, *m);
  }
  ledger_.ignore();
}

void PairTurns::on_judged(const ExchangeId& xid, const PeerId& peer, uint32_t index, BlockVerdict verdict,
                          const PairStats& stats) {
  if (xid.proposer == self_) {
    proposer_.on_judged(xid, peer, index, verdict, stats);
  } else {
    acceptor_.on_judged(xid, peer, index, verdict, stats);
  }
}

// ---- time ----

void PairTurns::tick() {
  proposer_.tick();
  acceptor_.tick();
  admission_.tick();
}

TimePoint PairTurns::next_deadline() const {
  return std::min({proposer_.next_deadline(), acceptor_.next_deadline(), acceptor_.free_at(),
                   admission_.next_deadline()});
}

// Waiting for another's steps pays while it costs no more than the exchange itself.
Duration PairTurns::wait_max() const {
  const Duration round_trip = ledger_.round_trip();
  return round_trip == Duration::zero() ? wait_max_ : std::min(wait_max_, kWaitRoundTrips * round_trip);
}

// ---- counts ----

ExchangeStatus PairTurns::status() const {
  return {.under_way = under_way(), .idle = idle(), .retries = true, .latencies = 1, .by_turns = true,
          .fresh = fresh(), .turns = turns_, .waiting = waiting(), .wait_max = wait_max(),
          .usual_duration = proposer_.deadline().usual(),
          .block_tally = block_tally(), .pairs = counters(), .doubts_parked = acceptor_.parked_doubts()};
}

PairwiseCounters PairTurns::counters() const {
  PairwiseCounters counters = ledger_.counters();
  counters.blocks_refused = blocks_.counts().refused;
  counters.blocks_left_out = blocks_.counts().left_out;
  return counters;
}

}  // namespace starling
