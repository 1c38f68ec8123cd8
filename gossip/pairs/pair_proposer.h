// The proposer's side of pair exchanges: it begins and decides them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gossip/exchange/robust_window.h"
#include "gossip/net/outbox.h"
#include "gossip/pairs/commit_log.h"
#include "gossip/pairs/exchange_table.h"
#include "gossip/pairs/late_arrivals.h"
#include "gossip/pairs/options.h"
#include "gossip/pairs/pair_blocks.h"
#include "gossip/pairs/pair_state.h"

namespace starling {

class PairProposer {
 public:
  // All references must outlive the object.
  PairProposer(const PairwiseOptions& options, PairState& ledger, PairBlocks& blocks, const Clock& clock,
               Outbox& outbox);

  // Begins an exchange. REQUIRES: none with this peer is open. False: there is no snapshot, or its budget is spent.
  struct Asked {
    PeerId peer;
    Duration patience{};
    uint64_t slot = 0;          // by turns: where this agent is in its schedule
    bool scheduled = false;     // with the partner of that slot
    bool brief = false;         // its turn, see brief_turn()
    bool blocks_first = false;  // its turn begins when the blocks are there
  };
  bool propose(const PeerId& peer) { return propose(Asked{peer, patience()}); }
  bool propose(const Asked& asked);
  bool under_way() const { return log_.last_is_open(); }  // the exchange begun last is not decided yet
  bool empty() const { return exchanges_.empty() && log_.empty(); }
  bool open_with(const PeerId& peer) const { return !exchanges_.with(peer).empty(); }  // not decided yet
  bool involves(const PeerId& peer) const { return open_with(peer) || log_.waits_for_ack_from(peer); }
  uint64_t generation_of(const PeerId& peer) const {  // of the peer's process that takes part; 0: none, or not known
    return std::max(exchanges_.generation_of(peer), log_.generation_of(peer));
  }
  void give_up(const PeerId& peer, ExchangeOutcome outcome);          // all open exchanges with it
  void give_up(ProposedExchange& exchange, ExchangeOutcome outcome);  // tells the acceptor. REQUIRES: undecided

  void on_accept(const PeerId& from, uint64_t generation, const Accept& accept);
  void on_busy(const PeerId& from, const Busy& busy);
  void on_have(const PeerId& from, const Have& have);
  void on_query(const PeerId& from, const Query& query);
  void on_ack(const PeerId& from, const CommitAck& ack);
  void on_block(const PeerId& from, const BlockPayload& block, const SharedBytes& payload);
  void on_credit(const PeerId& from, const Credit& credit);
  void on_missing(const PeerId& from, const Missing& missing);
  void on_judged(const ExchangeId& xid, const PeerId& from, uint32_t index, BlockVerdict verdict,
                 const PairStats& stats);

  // By turns. The exchange that keeps this agent from any other: open, and its delta not applied early. nullptr: none.
  ProposedExchange* asking();
  bool is_asking() const;
  std::vector<PeerId> peers() const;  // of all open exchanges and unacknowledged commits
  // Peers that did not acknowledge so many commits that no more are to be kept and repeated to them.
  static constexpr size_t kUnacknowledgedMax = 16;
  static constexpr int kRepeats = 2;
  void add_owing(std::vector<PeerId>& peers) const;
  // The peer's proposal crossed this one, which stands. The peer accepts it with the payload that came with its own
  // proposal, so those blocks are taken for this exchange. REQUIRES: not agreed, not crossed yet.
  void cross(ProposedExchange& exchange, uint64_t generation, const Propose& propose);
  // The peer's proposal crossed this one, which does not stand. Ends it and returns the payload that was sent with it.
  std::shared_ptr<const Snapshot> yield(ProposedExchange& exchange);
  ProposedExchange* crossed_by(const ExchangeId& xid, const PeerId& from);                           // nullptr: none
  bool on_crossed_block(const PeerId& from, const BlockPayload& block, const SharedBytes& payload);  // false: of none
  void ask_again(ProposedExchange& exchange);

  void hold_offers() const { exchanges_.hold_offers(ledger_); }  // in the budget of the snapshot just adopted
  void repeat_sooner(const PeerId* heard_from) { log_.repeat_sooner(heard_from); }
  void forget(const PeerId& peer, uint64_t generation);
  void tick();
  TimePoint next_deadline() const;

  // From the first sign on: what turns take, and time to ask for what was lost.
  Duration turn_deadline() const {
    return std::min(2 * turn_.current() + kRepeats * ledger_.repeat_after(), deadline_max_);
  }
  // From the first sign to the decision; nullopt: none has ended.
  std::optional<Duration> usual_turn() const { return turn_.so_far(); }
  // By turns: what a turn carries takes longer than its messages by far. False as well until a first turn has ended.
  bool link_is_thin() const;
  // With a peer that may never decide: twice what turns took so far, and time to ask once for what was lost.
  Duration brief_turn() const {
    const std::optional<Duration> usual = usual_turn();
    return usual ? std::min(2 * *usual + ledger_.repeat_after(), turn_deadline()) : turn_deadline();
  }
  // How long this agent's blocks are on their way, beside messages: half of them took less. nullopt: not known yet.
  std::optional<Duration> upload() const;
  Duration patience() const;  // how long a proposal waits, the turn included
  const AdaptiveDeadline& deadline() const { return late_.deadline(); }

 private:
  bool sends_at_once() const;
  void voted(const ProposedExchange& exchange);
  void try_decide(ProposedExchange& exchange);
  void try_apply_early(ProposedExchange& exchange);
  void send_proposal(const ProposedExchange& exchange, Duration deadline);
  void ask_again_crossed(const PeerId& peer);
  void sign(ProposedExchange& exchange);
  void ended_in_time(const ProposedExchange& exchange);
  bool pass_guard(ProposedExchange& exchange, const Bitmap& blocks);
  void fail(ProposedExchange& exchange, ExchangeOutcome outcome);  // erases the exchange

  const PeerId self_;
  PairState& ledger_;
  PairBlocks& blocks_;
  const Clock& clock_;
  Outbox& outbox_;
  const Duration deadline_max_;
  CommitLog log_;
  LateArrivals late_;
  AdaptiveDeadline turn_;  // by turns: from the first sign to the decision
  RobustWindow uploads_;   // s
  ExchangeTable<ProposedExchange> exchanges_;
};

}  // namespace starling
