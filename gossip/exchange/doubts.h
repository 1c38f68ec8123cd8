// The exchanges that this agent has voted on and waits for the proposer's word about. Time never decides one: a doubt
// that lasts is asked about ever more rarely, and parked, so that it keeps no other vote waiting.
#pragma once

#include <cstdint>
#include <optional>

#include "gossip/exchange/commit.h"
#include "gossip/exchange/exchange_table.h"
#include "gossip/exchange/pair_exchange.h"
#include "gossip/exchange/pair_ledger.h"
#include "gossip/net/outbox.h"

namespace starling {

class Doubts {
 public:
  // All references must outlive the object. `voter` knows the same doubts; what ends or parks one here tells it.
  Doubts(CommitVoter& voter, PairLedger& ledger, const Clock& clock, Outbox& outbox)
      : voter_(voter), ledger_(ledger), clock_(clock), outbox_(outbox) {}

  void add(AcceptedExchange exchange);                 // just voted on
  AcceptedExchange* find(const ExchangeId& xid, const PeerId& from) { return exchanges_.find(xid, from); }
  bool empty() const { return exchanges_.empty(); }
  uint64_t generation_of(const PeerId& proposer) const { return exchanges_.generation_of(proposer); }
  std::optional<TimePoint> busy_until() const;         // when the last of them should have been decided

  // The proposer's word. False: it comes from somebody else, or does not fit the vote.
  [[nodiscard]] bool on_commit(const PeerId& from, const Commit& commit);
  void aborted(const ExchangeId& xid) { fail(xid); }   // the voter was told. REQUIRES: in doubt

  void hold_shares();                                  // of the snapshot just adopted
  void repeat_sooner(const PeerId* heard_from);        // null: to everybody
  void forget(const PeerId& proposer, uint64_t generation);   // the voter was told
  bool tick();                                         // true: there is room for another vote
  TimePoint next_deadline() const;

 private:
  void ask(AcceptedExchange& exchange);
  void park(AcceptedExchange& exchange);
  void break_oldest();
  void fail(const ExchangeId& xid);

  static constexpr int kParkAfter = 10;                // deadlines

  CommitVoter& voter_;
  PairLedger& ledger_;
  const Clock& clock_;
  Outbox& outbox_;
  ExchangeTable<AcceptedExchange> exchanges_;
};

}  // namespace starling
