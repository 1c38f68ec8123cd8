#include "gossip/pairs/commit.h"

#include <algorithm>

#include "gossip/exchange/bitmap.h"
#include "kernels/check.h"

namespace starling {

// ---- decider ----

CommitDecider::Record* CommitDecider::find(uint64_t counter, const PeerId& from) {
  const auto it = records_.find(counter);
  return it != records_.end() && it->second.acceptor == from ? &it->second : nullptr;
}

void CommitDecider::open(uint64_t counter, const PeerId& acceptor) {
  const bool fresh = records_.try_emplace(counter, Record{acceptor, State::kOpen, {}}).second;
  STARLING_CHECK(fresh);
}

CommitAnswer CommitDecider::on_have(uint64_t counter, const PeerId& from, const CommitTerms& vote) {
  Record* record = find(counter, from);
  if (record == nullptr) return CommitAnswer::kAbort;
  if (record->state == State::kCommitted) return CommitAnswer::kCommit;
  if (record->state == State::kOpen) {
    record->state = State::kVoted;
    record->terms = vote;
  }
  return CommitAnswer::kNone;
}

CommitAnswer CommitDecider::on_query(uint64_t counter, const PeerId& from) {
  Record* record = find(counter, from);
  if (record == nullptr) return CommitAnswer::kAbort;
  if (record->state == State::kCommitted) return CommitAnswer::kCommit;
  records_.erase(counter);
  return CommitAnswer::kAbort;
}

bool CommitDecider::on_ack(uint64_t counter, const PeerId& from) {
  Record* record = find(counter, from);
  if (record == nullptr || record->state != State::kCommitted) return false;
  records_.erase(counter);
  return true;
}

const CommitTerms* CommitDecider::commit(uint64_t counter, const CommitTerms& mine) {
  const auto it = records_.find(counter);
  STARLING_CHECK(it != records_.end() && it->second.state == State::kVoted);
  CommitTerms& terms = it->second.terms;
  terms.blocks = intersection(terms.blocks, mine.blocks);
  terms.scale = std::min(terms.scale, mine.scale);
  if (count_bits(terms.blocks) == 0) {
    records_.erase(it);
    return nullptr;
  }
  it->second.state = State::kCommitted;
  return &terms;
}

bool CommitDecider::abort(uint64_t counter) {
  if (!is_open(counter)) return false;
  records_.erase(counter);
  return true;
}

bool CommitDecider::is_open(uint64_t counter) const {
  const auto it = records_.find(counter);
  return it != records_.end() && it->second.state != State::kCommitted;
}

const CommitTerms* CommitDecider::vote(uint64_t counter) const {
  const auto it = records_.find(counter);
  return it != records_.end() && it->second.state == State::kVoted ? &it->second.terms : nullptr;
}

const CommitTerms* CommitDecider::decision(uint64_t counter) const {
  const auto it = records_.find(counter);
  return it != records_.end() && it->second.state == State::kCommitted ? &it->second.terms : nullptr;
}

bool CommitDecider::waits_for_ack_from(const PeerId& peer) const {
  return std::any_of(records_.begin(), records_.end(), [&](const auto& entry) {
    return entry.second.acceptor == peer && entry.second.state == State::kCommitted;
  });
}

void CommitDecider::forget(uint64_t counter) { records_.erase(counter); }

// ---- voter ----

bool CommitVoter::seen(const ExchangeId& xid) const {
  for (const Mark& mark : marks_) {
    if (mark.proposer != xid.proposer) continue;
    if (mark.generation != xid.generation) return xid.generation < mark.generation;
    return xid.counter <= mark.counter;
  }
  return false;
}

bool CommitVoter::refuse(const ExchangeId& xid) {
  if (seen(xid)) return false;
  std::erase_if(marks_, [&](const Mark& mark) { return mark.proposer == xid.proposer; });
  if (marks_.size() >= kTombstonesMax) marks_.erase(marks_.begin());
  marks_.push_back({xid.proposer, xid.generation, xid.counter});
  return true;
}

bool CommitVoter::accept(const ExchangeId& xid) {
  if (!refuse(xid)) return false;
  accepted_.insert(xid);
  return true;
}

bool CommitVoter::leave(const ExchangeId& xid) { return accepted_.erase(xid) != 0; }

bool CommitVoter::vote(const ExchangeId& xid, const CommitTerms& terms) {
  if (!may_vote() || accepted_.erase(xid) == 0) return false;
  doubts_.emplace(xid, Doubt{terms});
  return true;
}

void CommitVoter::park(const ExchangeId& xid) {
  Doubt& doubt = doubts_.at(xid);
  if (!doubt.parked) ++parked_;
  doubt.parked = true;
}

void CommitVoter::break_doubt(const ExchangeId& xid) {
  const bool was_in_doubt = erase_doubt(xid);
  STARLING_CHECK(was_in_doubt);
}

bool CommitVoter::erase_doubt(const ExchangeId& xid) {
  const auto it = doubts_.find(xid);
  if (it == doubts_.end()) return false;
  parked_ -= it->second.parked ? 1 : 0;
  doubts_.erase(it);
  return true;
}

CommitVoter::OnCommit CommitVoter::on_commit(const ExchangeId& xid, const CommitTerms& decision) {
  if (accepted_.contains(xid)) return OnCommit::kIgnore;
  const auto it = doubts_.find(xid);
  if (it == doubts_.end()) return OnCommit::kAcknowledge;
  const CommitTerms& vote = it->second.vote;
  const bool within = subset(decision.blocks, vote.blocks) && count_bits(decision.blocks) > 0 && decision.scale > 0 &&
                      decision.scale <= vote.scale;
  if (!within) return OnCommit::kIgnore;
  erase_doubt(xid);
  return OnCommit::kApply;
}

bool CommitVoter::on_abort(const ExchangeId& xid) {
  refuse(xid);
  const bool was_accepted = accepted_.erase(xid) != 0;
  return erase_doubt(xid) || was_accepted;
}

void CommitVoter::forget(const PeerId& proposer, uint64_t generation) {
  const auto over = [&](const ExchangeId& xid) { return xid.proposer == proposer && xid.generation < generation; };
  std::erase_if(accepted_, over);
  std::erase_if(doubts_, [&](const auto& entry) {
    if (!over(entry.first)) return false;
    parked_ -= entry.second.parked ? 1 : 0;
    return true;
  });
}

}  // namespace starling
