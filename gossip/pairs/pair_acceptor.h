// The acceptor's side of pair exchanges: it votes on what it accepted. After its vote an exchange is in doubt until the
// proposer's decision arrives.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gossip/limits.h"
#include "gossip/net/outbox.h"
#include "gossip/pairs/commit.h"
#include "gossip/pairs/in_doubt_table.h"
#include "gossip/pairs/options.h"
#include "gossip/pairs/pair_blocks.h"
#include "gossip/pairs/pair_state.h"

namespace starling {

class PairAcceptor {
 public:
  // All references must outlive the object.
  PairAcceptor(const PairwiseOptions& options, PairState& ledger, PairBlocks& blocks, const Clock& clock,
               Outbox& outbox);

  bool seen(const ExchangeId& xid) const { return voter_.seen(xid); }  // accepted or refused before
  bool full() const { return voter_.accepted_count() >= kAcceptedMax || !voter_.may_vote(); }
  // Whether there is a place for one more exchange. One in doubt with a late decision makes room: it is parked.
  bool has_room();
  // Ends the proposer's earlier exchanges that are not voted on: a new proposal shows that it has given them up.
  void supersede(const PeerId& proposer);
  // The peer is believed dead, or has left: likewise all that are not voted on, and no turn waits for its decision.
  void lost(const PeerId& peer);
  // Answers ACCEPT with this payload and takes an offer, for so long. `sent`: the proposer has this agent's blocks, or
  // they are on their way. REQUIRES: the exchange is from this peer and not seen; a place and an offer are free.
  struct Turn {
    std::shared_ptr<const Snapshot> own;
    Duration left{};
    bool sent = false;
    bool crossed = false;  // the proposer takes this agent's own proposal, given up, for one of this exchange
    uint64_t slot = 0;     // where this agent is in its schedule
    bool scheduled = false;
    Duration waited{};  // how long the proposal did
  };
  void accept(const PeerId& from, const Propose& propose, const Turn& turn);
  bool answer_again(const ExchangeId& xid, const PeerId& from);  // ACCEPT and the vote. False: not
                                                                 // open here
  void answer_again(const PeerId& proposer);                     // all that are open here
  bool in_turn() const;                                          // an exchange here keeps this agent from any other
  TimePoint free_at() const;                                     // when time alone ends that; max: it does not
  // REQUIRES of both: not seen.
  void refuse(const ExchangeId& xid) { voter_.refuse(xid); }  // without an answer
  void refuse(const ExchangeId& xid, Duration free_in);       // answers BUSY: free again after that
  void say_busy(const ExchangeId& xid, Duration free_in);     // of a decided exchange: when to ask next

  void on_commit(const PeerId& from, const Commit& commit);
  void on_abort(const PeerId& from, uint64_t generation, const Abort& abort);
  // False: the exchange is not open here, so the block may have overtaken its PROPOSE.
  [[nodiscard]] bool on_block(const PeerId& from, const BlockPayload& block, const SharedBytes& payload);
  void on_credit(const PeerId& from, const Credit& credit);
  void on_missing(const PeerId& from, const Missing& missing);
  void on_judged(const ExchangeId& xid, const PeerId& from, uint32_t index, BlockVerdict verdict,
                 const PairStats& stats);

  bool empty() const { return exchanges_.empty() && doubts_.empty(); }
  bool involves(const PeerId& peer) const { return generation_of(peer) != 0; }
  bool in_doubt() const { return !doubts_.empty(); }
  bool overdue_with(const PeerId& proposer) const { return doubts_.overdue_with(proposer); }
  // The peer proposes while its decision on earlier ones is late, so it has decided or lacks the vote. False: not late.
  bool votes_again(const PeerId& proposer) { return doubts_.votes_again(proposer); }
  std::vector<PeerId> peers() const;  // of all exchanges here
  size_t parked_doubts() const { return voter_.parked_count(); }
  uint64_t generation_of(const PeerId& peer) const {  // of the peer's process that takes part; 0: none
    return std::max(exchanges_.generation_of(peer), doubts_.generation_of(peer));
  }
  std::optional<TimePoint> busy_until() const;  // when the last undecided exchange is expected to end

  void hold_offers() {  // in the budget of the snapshot just adopted
    exchanges_.hold_offers(ledger_);
    doubts_.hold_offers();
  }
  void repeat_sooner(const PeerId* heard_from) { doubts_.repeat_sooner(heard_from); }
  void forget(const PeerId& peer, uint64_t generation);
  void tick();
  TimePoint next_deadline() const;

 private:
  AcceptedExchange* find(const ExchangeId& xid, const PeerId& from);
  void try_vote(AcceptedExchange& exchange);
  bool waits_for_word(const AcceptedExchange& exchange) const;
  void send_accept(const AcceptedExchange& exchange);
  void retry_votes();  // after a doubt ended and freed a place
  void drop_out(AcceptedExchange& exchange);
  void leave_undecided(const ExchangeId& xid);
  void fail(AcceptedExchange& exchange);  // erases the exchange

  const PairwiseOptions options_;
  PairState& ledger_;
  PairBlocks& blocks_;
  const Clock& clock_;
  Outbox& outbox_;
  CommitVoter voter_;
  ExchangeTable<AcceptedExchange> exchanges_;  // accepted, not voted on
  InDoubtTable doubts_;                        // voted on, not decided
};

}  // namespace starling
