// Pairs by turns: the exchange of async_pairs.h (same messages, same commit), in which every exchange counts whole and
// uses the newest state. It keeps a trainer waiting, so it has no overlap with steps; AsyncPairs is for that.
//
//   boundary, by next(): encode ─> publish ─> an exchange ─> apply, encode, publish ─> an exchange ... (turn_loop.h)
//   steps follow: nothing is shared, or what is published with the time of their end
//
// The rules, and why each is there:
// - One payload serves one exchange. Once a delta is queued, the payload is not the newest state. This agent shares
//   nothing until it has applied the delta and published again. Several exchanges of one old snapshot at full weight
//   overshoot. At smaller weights they mix too little, and agents with different data do not learn.
// - One open exchange, in either role. A proposal that arrives meanwhile, or during the steps, waits
//   (turn_admission.h).
// - Two proposals that cross become one exchange: as two they would swap the models instead of mixing them. The blocks
//   that came with the abandoned one serve the other, so both sides apply after one latency. ACCEPT names its payload.
//   An acceptor that has encoded anew since is refused, because its blocks are not those that crossed.
// - The acceptor applies at its vote, the winner of a crossing when all blocks have passed: otherwise each is bound two
//   latencies longer. If the decision is another, the delta is taken back from the same bytes.
// - An agent with long steps publishes once more before them (Snapshot::next_at). That payload serves one proposal
//   during the steps; later proposals are answered BUSY, with the time.
// - The partner is the one met longest ago. A failed or refused attempt counts as met.
// - A peer takes no more than its share of turns, and less if it lets them end undecided (fair_share.h).
// - An agent that lacks a block asks for it (MISSING), and a turn has time for that.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compression/codec.h"
#include "compression/layout.h"
#include "gossip/exchange/exchange.h"
#include "gossip/net/outbox.h"
#include "gossip/pairs/options.h"
#include "gossip/pairs/pair_acceptor.h"
#include "gossip/pairs/pair_blocks.h"
#include "gossip/pairs/pair_proposer.h"
#include "gossip/pairs/pair_routes.h"
#include "gossip/pairs/pair_state.h"
#include "gossip/pairs/status.h"
#include "gossip/pairs/turn_admission.h"
#include "gossip/pairs/turn_loop.h"
#include "gossip/pairs/turn_paces.h"
#include "gossip/pairs/turn_schedule.h"
#include "gossip/pairs/turn_times.h"
#include "gossip/worker.h"

namespace starling {

class SyncPairs final : public Exchange {
 public:
  // All references must outlive the object. `codec` is used from worker jobs too. `sampler` chooses the partners for
  // begin(); it may be null if only propose() is called.
  SyncPairs(const PairwiseOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
            const Clock& clock, Outbox& outbox, PeerSampler* sampler = nullptr);
  SyncPairs(const SyncPairs&) = delete;
  SyncPairs& operator=(const SyncPairs&) = delete;

  // Begins an exchange with `peer`. False: an exchange is open, the payload is spent, or somebody waits.
  bool propose(const PeerId& peer);
  // Begins the exchange of one that waits. False: as above, or nobody waits.
  bool serve();

  void publish(std::shared_ptr<const Snapshot> snapshot) override;  // null: waiting and new proposals are answered BUSY
  Due next(const Boundary& boundary) override;
  void retract() { ledger_.retract(); }  // the state moves: proposals wait
  bool begin();                          // the next turn: serve(), else propose()
  void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
              const SharedBytes& payload) override;
  void tick() override {
    routes_.tick();
    times_.is(part());
  }
  TimePoint next_deadline() const override;
  void forget(const PeerId& peer, uint64_t generation) override {
    routes_.forget(peer, generation);
    paces_.forget(peer);
    times_.is(part());
  }
  void lost(const PeerId& peer) override {
    routes_.lost(peer);
    times_.is(part());
  }
  Decided take_decided() override { return ledger_.take_decided(); }
  std::vector<ExchangeReport> take_reports() override { return ledger_.take_reports(); }
  ExchangeStatus status() const override;
  PairsStatus pairs_status() const;

  bool under_way() const { return proposer_.is_asking() || acceptor_.in_turn(); }
  bool fresh() const { return ledger_.snapshot() != nullptr; }
  bool idle() const { return proposer_.empty() && acceptor_.empty(); }  // nothing open, in doubt or unacknowledged
  bool in_doubt() const { return acceptor_.in_doubt(); }
  size_t waiting() const { return admission_.waiting(); }
  TurnFacts facts() const;
  const BlockTally& block_tally() const { return ledger_.tally(); }
  PairwiseCounters counters() const;
  Duration current_deadline() const { return proposer_.deadline().current(); }

 private:
  Duration wait_max() const;
  Duration steps_waited_for() const;
  uint64_t turns_due() const;
  bool free() const { return fresh() && !under_way(); }
  bool next_turn();
  Due end_turns(const Boundary& boundary);
  std::optional<bool> scheduled_turn(const std::vector<PeerId>& not_now);
  bool propose(const PairProposer::Asked& asked);
  bool may_be_asked(const PeerId& peer, const std::vector<PeerId>& not_now);
  void partner_answered(bool mixed);
  void begin_boundary(const Snapshot& snapshot);
  void hear_pace(const PeerId& peer, uint32_t steps_us);
  void compare_paces(const std::vector<PeerId>& others, uint64_t boundaries, bool settling);
  TurnTimes::Part part();

  const PeerId self_;
  PeerSampler* sampler_;
  PairBlocks blocks_;
  PairState ledger_;
  PairProposer proposer_;
  PairAcceptor acceptor_;
  TurnSchedule schedule_;
  TurnAdmission admission_;
  PairRoutes<TurnAdmission> routes_;
  const uint64_t turns_due_, turns_of_many_;
  const Clock& clock_;
  const Duration wait_max_;  // for another's steps, whatever the link
  uint64_t turns_ = 0;
  TurnLoop loop_;
  struct Asked {
    PeerId peer;
    TimePoint at;
  };
  TimePoint began_;                     // the last boundary
  Duration steps_{}, without_steps_{};  // between the last two boundaries; until the last one
  std::optional<Asked> asked_;  // the partner of a slot, until the exchange with it is applied or came to nothing
  TurnTimes times_;
  TurnPaces paces_;
  bool thin_ = false;  // this agent's uplink, beside others'
};

}  // namespace starling
