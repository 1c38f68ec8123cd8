// The pairwise exchange of DESIGN §4: two agents, one commit, per block. Both apply equal and opposite deltas or
// neither, so sum(mass * params) is conserved whatever is lost, late, doubled or reordered (soundness C1, §1).
//
//   A                                   B
//   PROPOSE{xid, offer, mass} ────────> check, choose offer; or BUSY
//             <──────────── ACCEPT{offer, mass}     then blocks flow both ways under credits
//             <──────────── HAVE{blocks of A that B holds and has passed, scale}: B in doubt, cannot refuse
//   decide K = both bitmaps, s = min
//   COMMIT{K, s} ─────────────────────> apply later, ACK
// Presumed abort: A keeps the commit record until ACK; asked about what it does not remember or has not decided (it
// then aborts it) it answers ABORT. B never decides alone.
//
// Steps: 3 latencies + 2 transfers for the acceptor. Bytes on the wire: one payload each way + about 1 KiB.
// A state machine: no sockets, no threads; arithmetic goes through the Worker. All calls on the control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "compression/codec.h"
#include "compression/layout.h"
#include "gossip/exchange/exchange.h"
#include "gossip/exchange/options.h"
#include "gossip/net/outbox.h"
#include "gossip/rng.h"
#include "gossip/worker.h"

namespace starling {

struct PairwiseCounters {
  uint64_t initiated = 0, accepted = 0, done = 0, late = 0, failed = 0, busy_sent = 0, busy_received = 0;
  uint64_t doubts_broken = 0;       // above kParkedDoubtsMax: their proposers' halves may have no counterpart
  uint64_t blocks_refused = 0;      // wrong size, non-finite, damaged; also in exchanges that failed
  uint64_t blocks_left_out = 0;     // by the codec, on both ends alike; also in exchanges that failed
};

class Pairwise final : public Exchange {
 public:
  // All references must outlive the object. `codec` is used from worker jobs only. `company` names the partners of
  // begin(); null where only propose() is called.
  Pairwise(const PairwiseOptions& options, const Layout& layout, const Codec& codec, Worker& worker,
           const Clock& clock, Outbox& outbox, Company* company = nullptr);
  ~Pairwise() override;
  Pairwise(const Pairwise&) = delete;
  Pairwise& operator=(const Pairwise&) = delete;

  // Begins an exchange with `peer`. False: no snapshot yet, its budget is spent, or one with this peer is under way.
  bool propose(const PeerId& peer);

  // Shares a snapshot that another exchange uses at full weight: for one proposal of somebody else, and none of ours.
  void serve(std::shared_ptr<const Snapshot> snapshot);

  void publish(std::shared_ptr<const Snapshot> snapshot) override;   // null: proposals are answered BUSY
  void retract() override;                                           // proposals wait for the next snapshot
  bool begin() override;                                             // propose() to a partner of the company's choice
  void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message,
              const SharedBytes& payload) override;
  void tick() override;                       // deadlines, repeats
  TimePoint next_deadline() const override;
  void forget(const PeerId& peer, uint64_t generation) override;   // exchanges with those lives end, doubts too
  Decided take_decided() override;
  std::vector<ExchangeReport> take_reports() override;
  ExchangeStatus status() const override;

  bool under_way() const;
  bool idle() const;                          // nothing open, in doubt or waiting for an ACK
  std::optional<TimePoint> serving_until() const;
  const BlockTally& block_tally() const;      // of the exchanges that were decided; late ones are missing here
  bool in_doubt() const;                      // waits for somebody's decision
  const PairwiseCounters& counters() const;
  Duration current_deadline() const;          // of the next exchange this agent begins

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling
