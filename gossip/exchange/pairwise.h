// The pairwise exchange: two agents, one commit, per block. Both apply equal and opposite deltas or neither, so
// sum(mass * params) is conserved whatever is lost, late, doubled or reordered.
//
//   A                                   B
//   PROPOSE{xid, offer, mass} ────────> check, choose offer; or BUSY
//             <──────────── ACCEPT{offer, mass}     then blocks flow both ways under credits
//             <──────────── HAVE{blocks of A that B holds and has passed, scale}: B in doubt, cannot refuse
//   decide K = both bitmaps, s = min
//   COMMIT{K, s} ─────────────────────> apply later, ACK
// Presumed abort: A keeps the commit record until ACK; asked about what it does not remember or has not decided (it
// then aborts it) it answers ABORT. B never decides alone, however long A is silent.
//
// Steps: 3 latencies + 2 transfers for the acceptor. Bytes on the wire: one payload each way + about 1 KiB.
// A state machine: no sockets, no threads; arithmetic goes through the Worker. All calls on the control thread.
// This class routes and ties up; read proposer.h and acceptor.h for the two sides, pair_ledger.h for what they share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "compression/codec.h"
#include "compression/layout.h"
#include "gossip/exchange/acceptor.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/options.h"
#include "gossip/exchange/pair_blocks.h"
#include "gossip/exchange/pair_ledger.h"
#include "gossip/exchange/proposer.h"
#include "gossip/net/outbox.h"
#include "gossip/worker.h"

namespace starling {

class Pairwise final : public Exchange {
 public:
  // All references must outlive the object. `codec` is used from worker jobs only. `company` names the partners of
  // begin(); null where only propose() is called.
  Pairwise(const PairwiseOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
           const Clock& clock, Outbox& outbox, Company* company = nullptr);
  Pairwise(const Pairwise&) = delete;
  Pairwise& operator=(const Pairwise&) = delete;

  // Begins an exchange with `peer`. False: no snapshot yet, its budget is spent, or one with this peer is under way.
  bool propose(const PeerId& peer);

  // Shares a snapshot that another exchange uses at full weight: for one proposal of somebody else, and none of ours.
  void serve(std::shared_ptr<const Snapshot> snapshot);

  void publish(std::shared_ptr<const Snapshot> snapshot) override;   // null: proposals are answered BUSY
  void retract() override { ledger_.retract(); }                     // proposals wait for the next snapshot
  bool begin() override;                                             // propose() to a partner of the company's choice
  void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
              const SharedBytes& payload) override;
  void tick() override;                       // deadlines, repeats
  TimePoint next_deadline() const override;
  void forget(const PeerId& peer, uint64_t generation) override;   // exchanges with those lives end, doubts too
  Decided take_decided() override { return ledger_.take_decided(); }
  std::vector<ExchangeReport> take_reports() override { return ledger_.take_reports(); }
  ExchangeStatus status() const override;

  bool under_way() const { return proposer_.under_way(); }
  bool idle() const { return proposer_.empty() && acceptor_.empty(); }   // nothing open, in doubt or unacknowledged
  std::optional<TimePoint> serving_until() const;
  const BlockTally& block_tally() const { return ledger_.tally(); }      // of decided exchanges; late is missing here
  bool in_doubt() const { return acceptor_.in_doubt(); }   // waits for somebody's decision
  PairwiseCounters counters() const;
  Duration current_deadline() const { return proposer_.deadline().current(); }   // of the next own exchange

 private:
  // A proposal that came while the next snapshot is being encoded.
  struct Waiting {
    PeerId from;
    uint64_t generation = 0;
    Propose propose;
  };

  void share(std::shared_ptr<const Snapshot> next, const SnapshotBudget& shares);
  void repeat_sooner(const PeerId* heard_from);
  bool same_life(const PeerId& from, uint64_t generation);
  void on_propose(const PeerId& from, uint64_t generation, const Propose& propose);
  void on_judged(const ExchangeId& xid, const PeerId& peer, uint32_t index, BlockVerdict verdict,
                 const PairStats& stats);

  static constexpr size_t kWaitingMax = 16;
  static constexpr size_t kSpareBytes = 4 << 20;   // a snapshot twice in memory is no matter below this

  const PeerId self_;
  Company* company_;
  PairBlocks blocks_;
  PairLedger ledger_;
  Proposer proposer_;
  Acceptor acceptor_;
  std::vector<Waiting> waiting_;
};

}  // namespace starling
