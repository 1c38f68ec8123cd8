// Routes a message, a verdict or the end of a peer's process to the part that it concerns: the proposer, the acceptor,
// or the admission of foreign proposals (PairAdmission or TurnAdmission). Pairs by turns and pairs beside the steps
// share this.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "gossip/pairs/pair_acceptor.h"
#include "gossip/pairs/pair_blocks.h"
#include "gossip/pairs/pair_proposer.h"
#include "gossip/pairs/pair_state.h"

namespace starling {

template <class Admission>
class PairRoutes {
 public:
  // All references must outlive the object.
  PairRoutes(const PeerId& self, PairState& ledger, PairProposer& proposer, PairAcceptor& acceptor,
             Admission& admission)
      : self_(self), ledger_(ledger), proposer_(proposer), acceptor_(acceptor), admission_(admission) {}

  void handle(const PeerId& from, uint64_t generation, const ExchangeMessage& message, const SharedBytes& payload) {
    if (from == self_ || !same_life(from, generation)) return ledger_.ignore();
    repeat_sooner(&from);
    if (const auto* m = std::get_if<Propose>(&message)) return admission_.on_propose(from, generation, *m);
    if (const auto* m = std::get_if<Accept>(&message)) return proposer_.on_accept(from, generation, *m);
    if (const auto* m = std::get_if<Busy>(&message)) return proposer_.on_busy(from, *m);
    if (const auto* m = std::get_if<Have>(&message)) return proposer_.on_have(from, *m);
    if (const auto* m = std::get_if<Query>(&message)) return proposer_.on_query(from, *m);
    if (const auto* m = std::get_if<CommitAck>(&message)) return proposer_.on_ack(from, *m);
    if (const auto* m = std::get_if<Missing>(&message)) {
      return ours(m->xid) ? proposer_.on_missing(from, *m) : acceptor_.on_missing(from, *m);
    }
    if (const auto* m = std::get_if<Commit>(&message)) return acceptor_.on_commit(from, *m);
    if (const auto* m = std::get_if<Abort>(&message)) return on_abort(from, generation, *m);
    if (const auto* m = std::get_if<BlockPayload>(&message)) {
      return ours(m->xid) ? proposer_.on_block(from, *m, payload) : admission_.on_block(from, *m, payload);
    }
    if (const auto* m = std::get_if<Credit>(&message)) {
      return ours(m->xid) ? proposer_.on_credit(from, *m) : acceptor_.on_credit(from, *m);
    }
    ledger_.ignore();
  }

  void on_judged(const ExchangeId& xid, const PeerId& peer, uint32_t index, BlockVerdict verdict,
                 const PairStats& stats) {
    if (ours(xid)) {
      proposer_.on_judged(xid, peer, index, verdict, stats);
    } else {
      acceptor_.on_judged(xid, peer, index, verdict, stats);
    }
  }

  void forget(const PeerId& peer, uint64_t generation) {
    proposer_.forget(peer, generation);
    admission_.forget(peer, generation);
    acceptor_.forget(peer, generation);
    ledger_.forget(peer);
  }

  // Undecided exchanges with it end; doubts and commits stay.
  void lost(const PeerId& peer) {
    proposer_.give_up(peer, ExchangeOutcome::kFailed);
    acceptor_.lost(peer);
  }

  void repeat_sooner(const PeerId* heard_from) {  // null: to all
    proposer_.repeat_sooner(heard_from);
    acceptor_.repeat_sooner(heard_from);
  }

  void tick() {
    proposer_.tick();
    acceptor_.tick();
    admission_.tick();
  }

  TimePoint next_deadline() const {
    return std::min({proposer_.next_deadline(), acceptor_.next_deadline(), admission_.next_deadline()});
  }

 private:
  bool ours(const ExchangeId& xid) const { return xid.proposer == self_; }

  // An exchange is with one process (generation) of the peer. A later process knows nothing of it and must not vote in
  // it; late messages of an earlier process are void. False: ignore the message.
  bool same_life(const PeerId& from, uint64_t generation) {
    const uint64_t known = std::max(proposer_.generation_of(from), acceptor_.generation_of(from));
    if (known != 0 && known < generation) forget(from, generation);
    return known <= generation;
  }

  // Only proposals that wait in a queue can be given up before this agent is their acceptor.
  void on_abort(const PeerId& from, uint64_t generation, const Abort& abort) {
    if constexpr (requires { admission_.on_abort(from, abort); }) {
      if (admission_.on_abort(from, abort)) return;
    }
    acceptor_.on_abort(from, generation, abort);
  }

  const PeerId self_;
  PairState& ledger_;
  PairProposer& proposer_;
  PairAcceptor& acceptor_;
  Admission& admission_;
};

}  // namespace starling
