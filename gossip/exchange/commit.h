// Both or neither: the commit of one exchange as two pure state machines. No time, no I/O, no payloads;
// values that copy and compare, so that a test can search through every state. Pairwise adds the clock and
// the messages.
//
// Presumed abort: the decider (the proposer) remembers open exchanges and commits that nobody has
// acknowledged, and nothing else; whatever it does not remember was aborted. The voter (the acceptor) may
// refuse until it votes, and after its vote only the decider's word ends its doubt: time never does.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "gossip/limits.h"
#include "gossip/net/message.h"

namespace starling {

// What a vote offers and a commit fixes: the blocks, and the factor on their delta (0 < scale <= 1, finite).
struct CommitTerms {
  Bitmap blocks;
  double scale = 1;
  auto operator<=>(const CommitTerms&) const = default;
};

enum class CommitAnswer : uint8_t { kNone, kCommit, kAbort };

// One agent's own proposals, named by their counters. A message from anyone but the exchange's acceptor is
// answered as if the exchange were unknown, and changes nothing.
class CommitDecider {
 public:
  void open(uint64_t counter, const PeerId& acceptor);   // REQUIRES: counter was never opened

  // A vote. kNone: the first for an open exchange: now commit() may decide. kCommit: decided, say it again.
  CommitAnswer on_have(uint64_t counter, const PeerId& from, const CommitTerms& vote);

  // An undecided exchange is aborted by the question: its answer and a COMMIT could overtake each other.
  CommitAnswer on_query(uint64_t counter, const PeerId& from);

  bool on_ack(uint64_t counter, const PeerId& from);     // true: the record is dropped

  // Decides: K = vote and `mine`, s = the smaller scale. nullptr: K is empty and the exchange aborted.
  // REQUIRES: vote(counter) != nullptr. The pointer lives until the record is dropped.
  const CommitTerms* commit(uint64_t counter, const CommitTerms& mine);

  bool abort(uint64_t counter);                          // true: it was open. A commit is never undone

  bool is_open(uint64_t counter) const;
  const CommitTerms* vote(uint64_t counter) const;       // of an open exchange; nullptr: none yet
  const CommitTerms* decision(uint64_t counter) const;   // nullptr: not committed, or acknowledged
  bool waits_for_ack_from(const PeerId& peer) const;
  bool empty() const { return records_.empty(); }
  size_t size() const { return records_.size(); }

  // The life of the acceptor that took part is over: nobody will ask about this exchange any more.
  void forget(uint64_t counter);

  auto operator<=>(const CommitDecider&) const = default;

 private:
  enum class State : uint8_t { kOpen, kVoted, kCommitted };
  struct Record {
    PeerId acceptor;
    State state = State::kOpen;
    CommitTerms terms;   // the vote, then the decision
    auto operator<=>(const Record&) const = default;
  };
  Record* find(uint64_t counter, const PeerId& from);

  std::map<uint64_t, Record> records_;
};

// The exchanges proposed by others. `in_doubt_max` bounds the doubts that are not parked.
class CommitVoter {
 public:
  explicit CommitVoter(size_t in_doubt_max = kInDoubtMax) : in_doubt_max_(in_doubt_max) {}

  // False: this exchange, or a later one of the same proposer, was seen before; a proposal that comes late or
  // twice must never lead to a second vote.
  [[nodiscard]] bool accept(const ExchangeId& xid);
  bool refuse(const ExchangeId& xid);   // marks it as seen only; false as accept()
  bool seen(const ExchangeId& xid) const;

  // Before the vote: leaves freely. False: not accepted, or voted on.
  bool leave(const ExchangeId& xid);

  // From here on in doubt. False: not accepted, or already in_doubt_max in doubt; nothing changed then.
  [[nodiscard]] bool vote(const ExchangeId& xid, const CommitTerms& terms);

  // The doubt lasts: it frees its place for another vote and stays a doubt. REQUIRES: in doubt.
  void park(const ExchangeId& xid);

  // Ends a doubt without the proposer's word. If the proposer committed, its half has no counterpart from here on.
  // REQUIRES: in doubt.
  void break_doubt(const ExchangeId& xid);

  // kApply: in doubt till now: apply, then acknowledge. kAcknowledge: over already (applied, or forgotten
  // with its proposer): never apply again. kIgnore: not within the vote, or not voted yet: no honest proposer
  // sends this.
  enum class OnCommit : uint8_t { kApply, kAcknowledge, kIgnore };
  OnCommit on_commit(const ExchangeId& xid, const CommitTerms& decision);

  bool on_abort(const ExchangeId& xid);   // true: it was accepted or in doubt; in any case it is over

  bool in_doubt(const ExchangeId& xid) const { return doubts_.contains(xid); }
  size_t in_doubt_count() const { return doubts_.size(); }   // parked ones too
  size_t parked_count() const { return parked_; }
  size_t accepted_count() const { return accepted_.size(); }
  bool may_vote() const { return doubts_.size() - parked_ < in_doubt_max_; }

  // The proposer's lives before `generation` are over: their doubts are dropped. What was seen of it stays known.
  void forget(const PeerId& proposer, uint64_t generation);

  auto operator<=>(const CommitVoter&) const = default;

 private:
  // The latest exchange seen of a proposer. A bounded list, the least recently raised first: dropping a mark
  // would only matter for a proposal older than thousands of other proposers' news.
  struct Mark {
    PeerId proposer;
    uint64_t generation = 0;
    uint64_t counter = 0;
    auto operator<=>(const Mark&) const = default;
  };

  struct Doubt {
    CommitTerms vote;
    bool parked = false;
    auto operator<=>(const Doubt&) const = default;
  };
  bool erase_doubt(const ExchangeId& xid);

  size_t in_doubt_max_;
  std::vector<Mark> marks_;
  std::set<ExchangeId> accepted_;
  std::map<ExchangeId, Doubt> doubts_;
  size_t parked_ = 0;   // of doubts_
};

}  // namespace starling
