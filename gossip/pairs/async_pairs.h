// The pairwise exchange: two agents exchange snapshots and commit to a set of blocks. Both apply equal and opposite
// deltas, or neither does, so sum(mass * params) is conserved when messages are lost, late, duplicated or reordered.
//
//   A                                   B
//   PROPOSE{xid, offer, mass} ────────> check, choose offer; or BUSY
//             <──────────── ACCEPT{offer, mass}     then blocks flow both ways under credits
//             <──────────── HAVE{blocks of A that B holds and has passed, scale}: B in doubt, cannot refuse
//   decide K = both bitmaps, s = min
//   COMMIT{K, s} ─────────────────────> apply later, ACK
// Presumed abort: A keeps the record of a commit until the ACK. Asked (QUERY) about an exchange that it has not decided
// yet, A aborts it. For an exchange that it does not remember, A answers ABORT. B never decides by time, however long A
// is silent.
//
// A lost COMMIT is repeated until acknowledged. Until then B is in doubt: it keeps both payloads, trains on, and asks.
// It applies its half late, but from the same bytes. The sum changes in three cases only. One end stops for good
// between the halves: it restarts, or stays away until its tombstone expires. B holds more than kParkedDoubtsMax long
// doubts and breaks the oldest (doubts_broken counts this). Or an agent takes the others' model at the end of a run.
//
// Steps: 3 latencies + 2 transfers for the acceptor. Bytes on the wire: one payload each way + about 1 KiB.
// A state machine: no sockets, no threads; arithmetic goes through the Worker. All calls on the control thread.
// Its parts: pair_proposer.h, pair_acceptor.h and, for foreign proposals, pair_admission.h; pair_routes.h brings each
// message to the one that it concerns, pair_state.h is their shared state.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "compression/codec.h"
#include "compression/layout.h"
#include "gossip/exchange/exchange.h"
#include "gossip/net/outbox.h"
#include "gossip/pairs/options.h"
#include "gossip/pairs/pair_acceptor.h"
#include "gossip/pairs/pair_admission.h"
#include "gossip/pairs/pair_blocks.h"
#include "gossip/pairs/pair_proposer.h"
#include "gossip/pairs/pair_routes.h"
#include "gossip/pairs/pair_state.h"
#include "gossip/pairs/status.h"
#include "gossip/worker.h"

namespace starling {

class AsyncPairs final : public Exchange {
 public:
  // All references must outlive the object. `codec` is used from worker jobs too. `sampler` chooses the partners for
  // begin(); it may be null if only propose() is called.
  AsyncPairs(const PairwiseOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
             const Clock& clock, Outbox& outbox, PeerSampler* sampler = nullptr);
  AsyncPairs(const AsyncPairs&) = delete;
  AsyncPairs& operator=(const AsyncPairs&) = delete;

  // Begins an exchange with `peer`. False: there is no snapshot, its budget is spent, or an exchange with this peer is
  // open already.
  bool propose(const PeerId& peer);

  void publish(std::shared_ptr<const Snapshot> snapshot) override;  // null: proposals are answered BUSY
  Due next(const Boundary& boundary) override { return one_.next(boundary, true, *this); }
  void retract() { ledger_.retract(); }  // proposals wait for the next snapshot
  bool begin();                          // propose() to a peer with which nothing is open
  void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
              const SharedBytes& payload) override {
    routes_.handle(from, generation, message, payload);
  }
  void tick() override { routes_.tick(); }  // deadlines, repeats
  TimePoint next_deadline() const override { return routes_.next_deadline(); }
  // Ends their exchanges and doubts.
  void forget(const PeerId& peer, uint64_t generation) override { routes_.forget(peer, generation); }
  void lost(const PeerId& peer) override { routes_.lost(peer); }
  Decided take_decided() override { return ledger_.take_decided(); }
  std::vector<ExchangeReport> take_reports() override { return ledger_.take_reports(); }
  ExchangeStatus status() const override;
  PairsStatus pairs_status() const;

  bool under_way() const { return proposer_.under_way(); }
  bool idle() const { return proposer_.empty() && acceptor_.empty(); }  // nothing open, in doubt or unacknowledged
  std::optional<TimePoint> serving_until() const;
  const BlockTally& block_tally() const { return ledger_.tally(); }  // of decided exchanges; late counts as missing
  bool in_doubt() const { return acceptor_.in_doubt(); }             // waits for a proposer's decision
  PairwiseCounters counters() const;
  Duration current_deadline() const { return proposer_.deadline().current(); }  // of the next exchange begun here

 private:
  static constexpr size_t kSpareBytes = 4 << 20;  // up to this size two snapshots may be in memory at once

  const PeerId self_;
  PeerSampler* sampler_;
  PairBlocks blocks_;
  PairState ledger_;
  PairProposer proposer_;
  PairAcceptor acceptor_;
  PairAdmission admission_;
  PairRoutes<PairAdmission> routes_;
  OneExchange one_;
};

}  // namespace starling
