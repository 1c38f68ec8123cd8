// The side of pair exchanges that is asked: accepts, votes, and is then in doubt until the proposer's word comes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "gossip/exchange/commit.h"
#include "gossip/exchange/doubts.h"
#include "gossip/exchange/options.h"
#include "gossip/exchange/pair_blocks.h"
#include "gossip/exchange/pair_ledger.h"
#include "gossip/exchange/stash.h"
#include "gossip/net/outbox.h"

namespace starling {

class Acceptor {
 public:
  // All references must outlive the object.
  Acceptor(const PairwiseOptions& options, PairLedger& ledger, PairBlocks& blocks, const Clock& clock, Outbox& outbox);

  // May this PROPOSE be considered? False: malformed, or of an exchange that was seen before.
  bool is_news(const PeerId& from, uint64_t generation, const Propose& propose) const;
  // Ends what the proposer proposed before and has given up with a new proposal.
  void supersede(const PeerId& proposer);
  // Answers ACCEPT, or BUSY where there is no room. `usual`: how long an exchange takes. REQUIRES: it is news.
  void on_propose(const PeerId& from, const Propose& propose, Duration usual);
  void refuse(const Propose& propose, Duration free_in);

  void on_commit(const PeerId& from, const Commit& commit);
  void on_abort(const PeerId& from, uint64_t generation, const Abort& abort);
  void on_block(const PeerId& from, const BlockPayload& block, const SharedBytes& payload);
  void on_credit(const PeerId& from, const Credit& credit);
  void on_judged(const ExchangeId& xid, const PeerId& from, uint32_t index, BlockVerdict verdict,
                 const PairStats& stats);

  bool empty() const { return exchanges_.empty() && doubts_.empty(); }
  bool involves(const PeerId& peer) const { return generation_of(peer) != 0; }
  bool in_doubt() const { return !doubts_.empty(); }
  uint64_t generation_of(const PeerId& peer) const {   // of the life that takes part; 0: none
    return std::max(exchanges_.generation_of(peer), doubts_.generation_of(peer));
  }
  std::optional<TimePoint> busy_until() const;     // when the last exchange that is not decided should have been

  void hold_shares();                              // of the snapshot just adopted
  void repeat_sooner(const PeerId* heard_from) { doubts_.repeat_sooner(heard_from); }
  void forget(const PeerId& peer, uint64_t generation);
  void tick();
  TimePoint next_deadline() const;

 private:
  AcceptedExchange* find(const ExchangeId& xid, const PeerId& from);
  std::optional<Duration> busy_for(const Propose& propose, Duration usual) const;
  void try_vote(AcceptedExchange& exchange);
  void retry_votes();                              // a doubt has ended: others may vote
  void drop_out(AcceptedExchange& exchange);
  void fail(const AcceptedExchange& exchange);     // the exchange is gone from here on

  const PairwiseOptions options_;
  PairLedger& ledger_;
  PairBlocks& blocks_;
  const Clock& clock_;
  Outbox& outbox_;
  CommitVoter voter_;
  ExchangeTable<AcceptedExchange> exchanges_;      // not voted on
  Doubts doubts_;                                  // voted on
  Stash early_;                                    // blocks that overtook their PROPOSE
};

}  // namespace starling
