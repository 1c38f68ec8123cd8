// The proposer's half of the commit with a clock and messages: it opens exchanges, decides them, and repeats a COMMIT
// until the acceptor has acknowledged it.
#pragma once

#include <cstdint>
#include <map>

#include "gossip/clock.h"
#include "gossip/exchange/commit.h"
#include "gossip/exchange/pair_exchange.h"
#include "gossip/net/outbox.h"

namespace starling {

// Repeats of COMMIT and QUERY: at most this rarely to a peer that answers, and to one that does not.
inline constexpr Duration kRepeatSoon = std::chrono::seconds(1);
inline constexpr Duration kRepeatMax = std::chrono::seconds(30);

class CommitLog {
 public:
  // Of this life of `self`. The references must outlive the object.
  CommitLog(const PeerId& self, uint64_t generation, const Clock& clock, Outbox& outbox)
      : self_(self), generation_(generation), clock_(clock), outbox_(outbox) {}

  bool own(const ExchangeId& xid) const { return xid == id_of(xid.counter); }
  ExchangeId id_of(uint64_t counter) const { return {self_, generation_, counter}; }

  // A new exchange, open until commit() or abort().
  ExchangeId open(const PeerId& acceptor);
  bool last_is_open() const { return decider_.is_open(last_counter_); }
  const CommitTerms* vote(uint64_t counter) const { return decider_.vote(counter); }

  // Decides and tells the acceptor. REQUIRES: its vote has come, and a block of `mine` is in it.
  CommitTerms commit(const ProposedExchange& exchange, const CommitTerms& mine);
  void abort(const ProposedExchange& exchange);        // tells the acceptor. REQUIRES: open
  void drop(uint64_t counter) { decider_.forget(counter); }   // open, and the acceptor has left it

  // From the acceptor, about exchanges that `self` proposed in any life. True: a vote on an open one. Everything else
  // is answered here: a question about an open exchange aborts it.
  [[nodiscard]] bool on_have(const ExchangeId& xid, const PeerId& from, const CommitTerms& vote);
  void on_query(const ExchangeId& xid, const PeerId& from);
  [[nodiscard]] bool on_ack(const ExchangeId& xid, const PeerId& from);   // false: nothing waited for it

  bool empty() const { return decider_.empty(); }
  bool waits_for_ack_from(const PeerId& peer) const { return decider_.waits_for_ack_from(peer); }
  uint64_t generation_of(const PeerId& peer) const;    // of the life that has to acknowledge; 0: none
  void forget(const PeerId& peer, uint64_t generation);   // commits that its lives before this one owe an answer to

  void repeat_sooner(const PeerId* heard_from);        // null: to everybody
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
