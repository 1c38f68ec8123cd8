// The commit protocol of pair exchanges as two pure state machines: both agents apply an exchange, or neither does.
// There is no time, I/O or payload here. Objects copy and compare, so that a test can search every reachable state.
// CommitLog and InDoubtTable add the clock and the messages.
//
// Presumed abort: the decider (the proposer) remembers only open exchanges and commits that are not acknowledged. An
// exchange it does not remember was aborted. The voter (the acceptor) may refuse until it votes. After the vote it is
// in doubt and waits for the decider: it never decides by time, since the decider may have applied its half. The
// exceptions, in which a half may be lost, are forget() and break_doubt().
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

// The content of a vote and of a decision: the blocks, and the factor on their delta (0 < scale <= 1, finite).
struct CommitTerms {
  Bitmap blocks;
  double scale = 1;
  auto operator<=>(const CommitTerms&) const = default;
};

enum class CommitAnswer : uint8_t { kNone, kCommit, kAbort };

// The proposals of one agent, named by their counters. A message from a peer other than the exchange's acceptor changes
// nothing and is answered as if the exchange were unknown.
class CommitDecider {
 public:
  void open(uint64_t counter, const PeerId& acceptor);  // REQUIRES: counter was never opened

  // A vote arrived. kNone: the exchange is open, and commit() may decide it. kCommit or kAbort: send that answer.
  CommitAnswer on_have(uint64_t counter, const PeerId& from, const CommitTerms& vote);

  // A question arrived. It aborts an undecided exchange: "not committed" would be false once the proposer commits.
  CommitAnswer on_query(uint64_t counter, const PeerId& from);

  bool on_ack(uint64_t counter, const PeerId& from);  // true: the commit was waiting for it; its record is dropped

  // Decides: the blocks both in the vote and in `mine`, at the smaller scale. nullptr: no such block; it is aborted.
  // REQUIRES: vote(counter) != nullptr. The pointer lives until the record is dropped.
  const CommitTerms* commit(uint64_t counter, const CommitTerms& mine);

  bool abort(uint64_t counter);  // false: not open; a commit is never undone

  bool is_open(uint64_t counter) const;
  const CommitTerms* vote(uint64_t counter) const;      // of an open exchange; nullptr: no vote yet
  const CommitTerms* decision(uint64_t counter) const;  // nullptr: not committed, or acknowledged already
  bool waits_for_ack_from(const PeerId& peer) const;
  bool empty() const { return records_.empty(); }
  size_t size() const { return records_.size(); }

  // Drops the record. The acceptor's process that took part has ended, so no question about this exchange can come.
  void forget(uint64_t counter);

  auto operator<=>(const CommitDecider&) const = default;

 private:
  enum class State : uint8_t { kOpen, kVoted, kCommitted };
  struct Record {
    PeerId acceptor;
    State state = State::kOpen;
    CommitTerms terms;  // the vote, then the decision
    auto operator<=>(const Record&) const = default;
  };
  Record* find(uint64_t counter, const PeerId& from);

  std::map<uint64_t, Record> records_;
};

// The exchanges proposed by other agents. `in_doubt_max` bounds the doubts that are not parked.
class CommitVoter {
 public:
  explicit CommitVoter(size_t in_doubt_max = kInDoubtMax) : in_doubt_max_(in_doubt_max) {}

  // False: this exchange, or a later one of the same proposer, was seen before. A proposal that arrives late or twice
  // must not lead to a second vote.
  [[nodiscard]] bool accept(const ExchangeId& xid);
  bool refuse(const ExchangeId& xid);  // only marks it as seen; false as for accept()
  bool seen(const ExchangeId& xid) const;

  // Leaves an exchange before the vote. False: not accepted, or voted on already.
  bool leave(const ExchangeId& xid);

  // Puts the exchange in doubt. False, and nothing changed: not accepted, or `in_doubt_max` are in doubt already.
  [[nodiscard]] bool vote(const ExchangeId& xid, const CommitTerms& terms);

  // Frees the place of a long doubt for another vote; the exchange stays in doubt. REQUIRES: in doubt.
  void park(const ExchangeId& xid);

  // Ends a doubt without a decision. If the proposer committed, its half of the exchange has no counterpart.
  // REQUIRES: in doubt.
  void break_doubt(const ExchangeId& xid);

  // - kApply: the exchange was in doubt; apply it, then acknowledge.
  // - kAcknowledge: it has ended (applied, forgotten or broken); acknowledge and do not apply.
  // - kIgnore: there is no vote on it, or the decision exceeds the vote. An honest proposer sends neither.
  enum class OnCommit : uint8_t { kApply, kAcknowledge, kIgnore };
  OnCommit on_commit(const ExchangeId& xid, const CommitTerms& decision);

  bool on_abort(const ExchangeId& xid);  // true: the exchange was accepted or in doubt, and has ended

  bool in_doubt(const ExchangeId& xid) const { return doubts_.contains(xid); }
  size_t in_doubt_count() const { return doubts_.size(); }  // parked doubts included
  size_t parked_count() const { return parked_; }
  size_t accepted_count() const { return accepted_.size(); }
  bool may_vote() const { return doubts_.size() - parked_ < in_doubt_max_; }

  // Drops the exchanges of the proposer's processes before `generation`, which have ended. The marks of what was seen
  // of the proposer stay.
  void forget(const PeerId& proposer, uint64_t generation);

  auto operator<=>(const CommitVoter&) const = default;

 private:
  // The latest exchange seen of a proposer. The list is bounded and drops the mark that was raised least recently. A
  // dropped mark matters only if a proposal arrives after new proposals of thousands of other proposers.
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
  size_t parked_ = 0;  // how many of doubts_ are parked
};

}  // namespace starling
