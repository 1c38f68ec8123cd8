#include "gossip/exchange/pairwise.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace starling {

Pairwise::Pairwise(const PairwiseOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
                   const Clock& clock, Outbox& outbox, PeerSampler* sampler)
    : self_(options.self), sampler_(sampler),
      blocks_(layout, codec, worker, clock, outbox,
              [this](const ExchangeId& xid, const PeerId& peer, uint32_t index, BlockVerdict verdict,
                     const PairStats& stats) { on_judged(xid, peer, index, verdict, stats); }),
      ledger_(options, layout, blocks_, clock),
      proposer_(options, ledger_, blocks_, clock, outbox), acceptor_(options, ledger_, blocks_, clock, outbox),
      admission_(options, ledger_, blocks_, proposer_, acceptor_, clock, outbox) {
  STARLING_CHECK(options.deadline_min.count() > 0 && options.deadline_min <= options.deadline_max);
}

bool Pairwise::propose(const PeerId& peer) {
  if (peer == self_ || proposer_.involves(peer) || acceptor_.involves(peer)) return false;
  return proposer_.propose(peer);
}

bool Pairwise::begin() {
  STARLING_CHECK(sampler_ != nullptr);
  std::vector<PeerId> engaged = proposer_.peers();
  for (const PeerId& peer : acceptor_.peers()) engaged.push_back(peer);
  const std::optional<PeerId> partner = sampler_->choose(engaged);
  return partner && propose(*partner);
}

// ---- boundary ----

void Pairwise::publish(std::shared_ptr<const Snapshot> snapshot) { share(std::move(snapshot), SnapshotBudget()); }
void Pairwise::serve(std::shared_ptr<const Snapshot> snapshot) { share(std::move(snapshot), SnapshotBudget(1)); }

void Pairwise::share(std::shared_ptr<const Snapshot> next, const SnapshotBudget& budget) {
  if (next != nullptr) {
    ledger_.adopt(std::move(next), budget);
    proposer_.hold_offers();
    acceptor_.hold_offers();
  } else {   // nothing to share from now on: open exchanges go on with the snapshots they began with
    ledger_.withdraw();
    repeat_sooner(nullptr);
  }
  admission_.answer_waiting();
}

std::optional<TimePoint> Pairwise::serving_until() const {
  if (blocks_.payload_bytes() <= kSpareBytes) return std::nullopt;
  return acceptor_.busy_until();
}

// ---- messages ----

// An exchange is with one process (generation) of the peer. A later process knows nothing of it and must not vote in
// it; late messages of an earlier process are void. False: ignore the message.
bool Pairwise::same_life(const PeerId& from, uint64_t generation) {
  const uint64_t known = std::max(proposer_.generation_of(from), acceptor_.generation_of(from));
  if (known != 0 && known < generation) forget(from, generation);
  return known <= generation;
}

void Pairwise::forget(const PeerId& peer, uint64_t generation) {
  proposer_.forget(peer, generation);
  admission_.forget(peer, generation);
  acceptor_.forget(peer, generation);
}

void Pairwise::repeat_sooner(const PeerId* heard_from) {
  proposer_.repeat_sooner(heard_from);
  acceptor_.repeat_sooner(heard_from);
}

void Pairwise::handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
                      const SharedBytes& payload) {
  if (from == self_ || !same_life(from, generation)) return ledger_.ignore();
  repeat_sooner(&from);
  const auto ours = [this](const ExchangeId& xid) { return xid.proposer == self_; };
  if (const auto* m = std::get_if<Propose>(&message)) return admission_.on_propose(from, generation, *m);
  if (const auto* m = std::get_if<Accept>(&message)) return proposer_.on_accept(from, generation, *m);
  if (const auto* m = std::get_if<Busy>(&message)) return proposer_.on_busy(from, *m);
  if (const auto* m = std::get_if<Have>(&message)) return proposer_.on_have(from, *m);
  if (const auto* m = std::get_if<Query>(&message)) return proposer_.on_query(from, *m);
  if (const auto* m = std::get_if<CommitAck>(&message)) return proposer_.on_ack(from, *m);
  if (const auto* m = std::get_if<Commit>(&message)) return acceptor_.on_commit(from, *m);
  if (const auto* m = std::get_if<Abort>(&message)) return acceptor_.on_abort(from, generation, *m);
  if (const auto* m = std::get_if<BlockPayload>(&message)) {
    return ours(m->xid) ? proposer_.on_block(from, *m, payload) : admission_.on_block(from, *m, payload);
  }
  if (const auto* m = std::get_if<Credit>(&message)) {
    return ours(m->xid) ? proposer_.on_credit(from, *m) : acceptor_.on_credit(from, *m);
  }
  ledger_.ignore();
}

void Pairwise::on_judged(const ExchangeId& xid, const PeerId& peer, uint32_t index, BlockVerdict verdict,
                         const PairStats& stats) {
  if (xid.proposer == self_) {
    proposer_.on_judged(xid, peer, index, verdict, stats);
  } else {
    acceptor_.on_judged(xid, peer, index, verdict, stats);
  }
}

// ---- time ----

void Pairwise::tick() {
  proposer_.tick();
  acceptor_.tick();
  admission_.tick();
}

TimePoint Pairwise::next_deadline() const {
  return std::min({proposer_.next_deadline(), acceptor_.next_deadline(), admission_.next_deadline()});
}

// ---- counts ----

ExchangeStatus Pairwise::status() const {
  return {.under_way = under_way(), .idle = idle(), .retries = true, .latencies = 2,
          .usual_duration = proposer_.deadline().usual(), .serving_until = serving_until(),
          .block_tally = block_tally(), .pairs = counters(), .doubts_parked = acceptor_.parked_doubts()};
}

PairwiseCounters Pairwise::counters() const {
  PairwiseCounters counters = ledger_.counters();
  counters.blocks_refused = blocks_.counts().refused;
  counters.blocks_left_out = blocks_.counts().left_out;
  return counters;
}

}  // namespace starling
