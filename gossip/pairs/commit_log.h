// The proposer's half of the commit protocol, with clock and messages: opens exchanges, decides them, and repeats a
// COMMIT until the acceptor has acknowledged it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "gossip/clock.h"
#include "gossip/net/outbox.h"
#include "gossip/pairs/commit.h"
#include "gossip/pairs/pair_exchange.h"

namespace starling {

// Intervals between repeats of COMMIT and QUERY. After a frame from the peer the interval is at most kRepeatSoon; it
// doubles up to kRepeatMax while the peer is silent.
inline constexpr Duration kRepeatSoon = std::chrono::seconds(1);
inline constexpr Duration kRepeatMax = std::chrono::seconds(30);

class CommitLog {
 public:
  // `generation`: of this process of `self`. The references must outlive the object.
  CommitLog(const PeerId& self, uint64_t generation, const Clock& clock, Outbox& outbox)
      : self_(self), generation_(generation), clock_(clock), outbox_(outbox) {}

  bool own(const ExchangeId& xid) const { return xid == id_of(xid.counter); }
  ExchangeId id_of(uint64_t counter) const { return {self_, generation_, counter}; }

  // Opens a new exchange; it stays open until commit(), abort() or drop().
  ExchangeId open(const PeerId& acceptor);
  bool last_is_open() const { return decider_.is_open(last_counter_); }
  const CommitTerms* vote(uint64_t counter) const { return decider_.vote(counter); }

  // Decides and sends the decision to the acceptor. REQUIRES: the vote is here and shares a block with `mine`.
  CommitTerms commit(const ProposedExchange& exchange, const CommitTerms& mine);
  void abort(const ProposedExchange& exchange);              // and tells the acceptor. REQUIRES: open
  void drop(uint64_t counter) { decider_.forget(counter); }  // an open exchange that the acceptor has left

  // Messages of an acceptor about exchanges that `self` proposed, in this process or an earlier one. on_have is true
  // for a vote on an open exchange; every other vote is answered here. A question about an open exchange aborts it.
  [[nodiscard]] bool on_have(const ExchangeId& xid, const PeerId& from, const CommitTerms& vote);
  void on_query(const ExchangeId& xid, const PeerId& from);
  [[nodiscard]] bool on_ack(const ExchangeId& xid, const PeerId& from);  // false: no commit waited for it

  bool empty() const { return decider_.empty(); }
  std::vector<PeerId> unacknowledged_by() const;  // acceptors of commits that wait for their ACK
  bool waits_for_ack_from(const PeerId& peer) const { return decider_.waits_for_ack_from(peer); }
  uint64_t generation_of(const PeerId& peer) const;      // of the peer's process that has to acknowledge; 0: none
  void forget(const PeerId& peer, uint64_t generation);  // drops commits that wait for processes before `generation`

  void repeat_sooner(const PeerId* heard_from);  // repeats to this peer only; null: to all
  void tick();
  TimePoint next_deadline() const;

 private:
  static constexpr Duration kRepeatMin = std::chrono::milliseconds(20);

  void answer(const ExchangeId& xid, const PeerId& to, CommitAnswer what);
  void send_commit(uint64_t counter);

  struct Repeat {
    PeerId acceptor;
    uint64_t generation = 0;
    TimePoint next_at;
    Duration backoff{};
  };

  PeerId self_;
  uint64_t generation_;
  const Clock& clock_;
  Outbox& outbox_;
  uint64_t last_counter_ = 0;
  CommitDecider decider_;
  std::map<uint64_t, Repeat> unacknowledged_;
};

}  // namespace starling
