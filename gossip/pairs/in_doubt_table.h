// The exchanges in doubt: this agent has voted and waits for the proposer's decision. Time never decides one: the agent
// asks (QUERY) at growing intervals. A long doubt is parked, so that it does not block other votes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "gossip/net/outbox.h"
#include "gossip/pairs/commit.h"
#include "gossip/pairs/exchange_table.h"
#include "gossip/pairs/pair_exchange.h"
#include "gossip/pairs/pair_state.h"

namespace starling {

class InDoubtTable {
 public:
  // All references must outlive the object. `voter` holds the same doubts and is kept in step when one ends or is
  // parked here.
  InDoubtTable(CommitVoter& voter, PairState& ledger, const Clock& clock, Outbox& outbox)
      : voter_(voter), ledger_(ledger), clock_(clock), outbox_(outbox) {}

  void add(AcceptedExchange exchange);  // REQUIRES: the voter has just voted on it
  AcceptedExchange* find(const ExchangeId& xid, const PeerId& from) { return exchanges_.find(xid, from); }
  bool empty() const { return exchanges_.empty(); }
  auto begin() const { return exchanges_.begin(); }
  auto end() const { return exchanges_.end(); }
  uint64_t generation_of(const PeerId& proposer) const { return exchanges_.generation_of(proposer); }
  bool park_overdue();  // the oldest exchange with a late decision: its place is needed. False: there is none
  bool overdue_with(const PeerId& proposer) const;  // a decision is late, or several are open
  // Votes again where a decision is late, or several are open. False: neither is so.
  bool votes_again(const PeerId& proposer);
  std::optional<TimePoint> busy_until() const;  // when the last of them is expected to be decided

  // The proposer's decision. False: it is from another peer, or exceeds the vote.
  [[nodiscard]] bool on_commit(const PeerId& from, const Commit& commit);
  // REQUIRES: it was in doubt, and the voter has dropped it.
  void aborted(const ExchangeId& xid) { fail(xid, exchanges_.at(xid).blames_abort(clock_.now())); }

  void lost(const PeerId& proposer);                         // no turn waits for its decisions any more
  void hold_offers();                                        // in the budget of the snapshot just adopted
  void repeat_sooner(const PeerId* heard_from);              // repeats to this peer only; null: to all
  void forget(const PeerId& proposer, uint64_t generation);  // REQUIRES: the voter has dropped them
  bool tick();                                               // true: a place for another vote was freed
  TimePoint next_deadline() const;

 private:
  void ask(AcceptedExchange& exchange);
  void park(AcceptedExchange& exchange);
  void break_oldest();
  void fail(const ExchangeId& xid, bool undecided);

  static constexpr int kParkAfter = 10;         // deadlines
  static constexpr size_t kOpenPerPeerMax = 2;  // a COMMIT may still be on its way when the next PROPOSE comes

  CommitVoter& voter_;
  PairState& ledger_;
  const Clock& clock_;
  Outbox& outbox_;
  ExchangeTable<AcceptedExchange> exchanges_;
};

}  // namespace starling
