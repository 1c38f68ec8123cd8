#include "gossip/pairs/async_pairs.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace starling {

AsyncPairs::AsyncPairs(const PairwiseOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
                       const Clock& clock, Outbox& outbox, PeerSampler* sampler)
    : self_(options.self),
      sampler_(sampler),
      blocks_(
          layout, codec, worker, clock, outbox,
          [this](const ExchangeId& xid, const PeerId& peer, uint32_t index, BlockVerdict verdict,
                 const PairStats& stats) { routes_.on_judged(xid, peer, index, verdict, stats); },
          options),
      ledger_(options, layout, blocks_, clock),
      proposer_(options, ledger_, blocks_, clock, outbox),
      acceptor_(options, ledger_, blocks_, clock, outbox),
      admission_(options, ledger_, blocks_, proposer_, acceptor_, clock),
      routes_(self_, ledger_, proposer_, acceptor_, admission_) {
  STARLING_CHECK(options.deadline_min.count() > 0 && options.deadline_min <= options.deadline_max);
}

bool AsyncPairs::propose(const PeerId& peer) {
  if (peer == self_ || proposer_.involves(peer) || acceptor_.involves(peer)) return false;
  return proposer_.propose(peer);
}

bool AsyncPairs::begin() {
  STARLING_CHECK(sampler_ != nullptr);
  std::vector<PeerId> not_asked = proposer_.peers();
  for (const PeerId& peer : acceptor_.peers()) not_asked.push_back(peer);
  const std::optional<PeerId> partner = sampler_->choose(not_asked);
  return partner && propose(*partner);
}

// ---- boundary ----

void AsyncPairs::publish(std::shared_ptr<const Snapshot> snapshot) {
  if (snapshot != nullptr) {
    ledger_.adopt(std::move(snapshot), SnapshotBudget());
    proposer_.hold_offers();
    acceptor_.hold_offers();
  } else {  // nothing to share from now on: open exchanges go on with the snapshots they began with
    ledger_.withdraw();
    routes_.repeat_sooner(nullptr);
  }
  admission_.answer_waiting();
}

std::optional<TimePoint> AsyncPairs::serving_until() const {
  if (blocks_.payload_bytes() <= kSpareBytes) return std::nullopt;
  return acceptor_.busy_until();
}

// ---- counts ----

ExchangeStatus AsyncPairs::status() const {
  return {.under_way = under_way(),
          .idle = idle(),
          .latencies = 2,
          .usual_duration = proposer_.deadline().usual(),
          .serving_until = serving_until(),
          .block_tally = block_tally()};
}

PairsStatus AsyncPairs::pairs_status() const {
  return {.counters = counters(), .doubts_parked = acceptor_.parked_doubts()};
}

PairwiseCounters AsyncPairs::counters() const {
  PairwiseCounters counters = ledger_.counters();
  counters.blocks_refused = blocks_.counts().refused;
  counters.blocks_left_out = blocks_.counts().left_out;
  return counters;
}

}  // namespace starling
