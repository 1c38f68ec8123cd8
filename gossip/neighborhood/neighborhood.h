// The neighborhood exchange: D-PSGD (Lian et al., NIPS 2017). In each round an agent sends its snapshot to all of its
// neighbors in the topology and mixes the snapshots that they sent:
//
//   x_i += sum_j w_ij (x_j - x_i)          w: sampler.neighbors(round); the rest of row i is the self weight
//
// Each row sums to 1 whatever is lost. A late neighbor counts with its last payload, block by block, for at most
// kAgeMax rounds; otherwise the mean would lose a straggler's data. After that its weight goes to the agent itself.
// With one local step and overlap this is the textbook's x_i <- sum_j w_ij x_j - eta g_i(x_i). Without overlap the
// gradient is taken at the average instead.
//
// A round takes one latency and one transfer, with one payload out and in per neighbor and no handshake. The deadline
// is the lower median of what the neighbors' arrivals need, late arrivals included. A round does not wait for a
// neighbor that sends less often than this agent mixes: neighbors would take turns computing. It waits only briefly for
// one that never sent anything. Only codecs with payloads that stand for themselves (Codec::linear). A state machine,
// like all exchanges. neighbor_guard.h bounds what one neighbor may do; neighbor_round.h decides how long a round
// waits; neighbor_link.h holds the state of one neighbor.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "compression/layout.h"
#include "gossip/exchange/block_outcome.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/options.h"
#include "gossip/neighborhood/neighbor_guard.h"
#include "gossip/neighborhood/neighbor_link.h"
#include "gossip/neighborhood/neighbor_round.h"
#include "gossip/net/outbox.h"
#include "gossip/worker.h"

namespace starling {

class Neighborhood final : public Exchange {
 public:
  static constexpr uint64_t kAgeMax = NeighborLink::kAgeMax;  // rounds

  // All references must outlive the object. `codec` is used from worker jobs too.
  Neighborhood(const ExchangeOptions& options, bool guarded, const Layout& layout, const Codec& codec, Worker& worker,
               const Clock& clock, Outbox& outbox, PeerSampler& sampler);

  void publish(std::shared_ptr<const Snapshot> snapshot) override;
  Due next(const Boundary& boundary) override { return one_.next(boundary, false, *this); }
  void retract() { snapshot_ = nullptr; }  // an open round keeps the snapshot it began with
  bool begin();
  void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
              const SharedBytes& payload) override;
  void tick() override;
  TimePoint next_deadline() const override;
  void forget(const PeerId& peer, uint64_t generation) override;
  void lost(const PeerId& peer) override;
  Decided take_decided() override { return {std::exchange(decided_, {}), {}}; }
  std::vector<ExchangeReport> take_reports() override { return std::exchange(reports_, {}); }
  ExchangeStatus status() const override;

  bool under_way() const { return round_.open(); }
  bool idle() const { return !under_way(); }
  const BlockTally& block_tally() const { return outcomes_.tally(); }  // `late` is 0: it counts in the next round
  uint64_t round() const { return round_.number(); }                   // of the current round; it may jump
  uint64_t rounds() const { return rounds_; }                          // how many rounds this agent began

 private:
  void send_to(const PeerId& peer, NeighborLink& link);
  void finish_if_due();
  // What one neighbor brought to a round.
  struct Brought {
    Delta delta;
    ExchangeReport report;
    double mass = 1;
  };
  Brought take(const Participant& neighbor);
  void take(NeighborLink& link, Brought& brought);
  void guard(std::vector<Brought>& all);
  BlockOutcome settle(BlockOutcome value);
  void on_block(const PeerId& from, const RoundBlock& block, const SharedBytes& payload);
  void on_credit(const PeerId& from, const RoundCredit& credit);
  void judge(const PeerId& from, const RoundBlock& block, const SharedBytes& payload);
  void on_judged(const PeerId& from, const NeighborLink::Judged& judged);

  const ExchangeOptions options_;
  const bool guarded_;
  const Layout& layout_;
  const Codec& codec_;
  Worker& worker_;
  const Clock& clock_;
  Outbox& outbox_;
  NeighborRound round_;
  std::shared_ptr<const Snapshot> snapshot_;  // published
  std::shared_ptr<const Snapshot> own_;       // of the round
  std::vector<Delta> decided_;
  std::vector<ExchangeReport> reports_;
  uint64_t rounds_ = 0;
  NeighborGuard guard_;
  OutcomeTally outcomes_;
  OneExchange one_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // completions of a destroyed object do nothing
};

}  // namespace starling
