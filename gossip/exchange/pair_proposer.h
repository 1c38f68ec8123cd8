// The proposer's side of pair exchanges: it begins and decides them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gossip/exchange/commit_log.h"
#include "gossip/exchange/exchange_table.h"
#include "gossip/exchange/late_arrivals.h"
#include "gossip/exchange/options.h"
#include "gossip/exchange/pair_blocks.h"
#include "gossip/exchange/pair_ledger.h"
#include "gossip/net/outbox.h"

namespace starling {

class PairProposer {
 public:
  // All references must outlive the object.
  PairProposer(const PairwiseOptions& options, PairLedger& ledger, PairBlocks& blocks, const Clock& clock,
               Outbox& outbox);

  // Begins an exchange. REQUIRES: none with this peer is open. False: there is no snapshot, or its budget is spent.
  bool propose(const PeerId& peer);
  bool under_way() const { return log_.last_is_open(); }   // the exchange begun last is not decided yet
  bool empty() const { return exchanges_.empty() && log_.empty(); }
  bool open_with(const PeerId& peer) const { return !exchanges_.with(peer).empty(); }   // not decided yet
  bool involves(const PeerId& peer) const { return open_with(peer) || log_.waits_for_ack_from(peer); }
  uint64_t generation_of(const PeerId& peer) const {   // of the peer's process that takes part; 0: none, or not known
    return std::max(exchanges_.generation_of(peer), log_.generation_of(peer));
  }
  void give_up(const PeerId& peer, ExchangeOutcome outcome);   // all open exchanges with it

  void on_accept(const PeerId& from, uint64_t generation, const Accept& accept);
  void on_busy(const PeerId& from, const Busy& busy);
  void on_have(const PeerId& from, const Have& have);
  void on_query(const PeerId& from, const Query& query);
  void on_ack(const PeerId& from, const CommitAck& ack);
  void on_block(const PeerId& from, const BlockPayload& block, const SharedBytes& payload);
  void on_credit(const PeerId& from, const Credit& credit);
  void on_judged(const ExchangeId& xid, const PeerId& from, uint32_t index, BlockVerdict verdict,
                 const PairStats& stats);

  void hold_offers() const { exchanges_.hold_offers(ledger_); }   // in the budget of the snapshot just adopted
  void repeat_sooner(const PeerId* heard_from) { log_.repeat_sooner(heard_from); }
  void forget(const PeerId& peer, uint64_t generation);
  void tick();
  TimePoint next_deadline() const;

  const AdaptiveDeadline& deadline() const { return late_.deadline(); }

 private:
  void try_decide(ProposedExchange& exchange);
  void give_up(ProposedExchange& exchange, ExchangeOutcome outcome);   // tells the acceptor. REQUIRES: undecided
  void fail(ProposedExchange& exchange, ExchangeOutcome outcome);      // erases the exchange

  const PeerId self_;
  PairLedger& ledger_;
  PairBlocks& blocks_;
  const Clock& clock_;
  Outbox& outbox_;
  CommitLog log_;
  LateArrivals late_;
  ExchangeTable<ProposedExchange> exchanges_;
};

}  // namespace starling
