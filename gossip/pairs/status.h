// What pair exchanges count since this agent began, and how they stand.
#pragma once

#include <cstdint>

namespace starling {

struct PairwiseCounters {
  uint64_t initiated = 0, accepted = 0, done = 0, late = 0, failed = 0, busy_sent = 0, busy_received = 0;
  uint64_t clipped = 0;              // of done and late: a guard, own or the peer's, scaled the delta down
  uint64_t guard_refused = 0;        // of failed: the peer was too far away for any scale
  uint64_t gain_permille = 0;        // of done and late, the sum: 1000 where both moved to the middle of their masses
  uint64_t unanswered = 0;           // of failed: proposals of this agent that nobody answered until its deadline
  uint64_t undecided = 0;            // of failed: began in either role, and the peer let the time run out
  uint64_t crossed = 0;              // by turns: two proposals that became one exchange
  uint64_t queued = 0, expired = 0;  // by turns: foreign proposals that waited for a turn; those of them in vain
  uint64_t queued_turn = 0;          // of queued: this agent was in an exchange. The others: in its steps, or encoded
  uint64_t queued_asking = 0;        // of queued: its own proposal was not answered yet
  uint64_t rings = 0;                // of busy_sent: the proposal might have closed a ring of waiting
  // By turns, microseconds in which no step was taken: an own proposal was not answered, an own exchange was under way,
  // one that another began.
  uint64_t asking_us = 0, own_us = 0, serving_us = 0;
  uint64_t over_share = 0;       // by turns, of busy_sent: the peer had had its share of this agent's turns
  uint64_t taken_back = 0;       // by turns: deltas applied at the vote and undone, since the decision was another
  uint64_t doubts_broken = 0;    // beyond kParkedDoubtsMax; the proposer may have applied its half
  uint64_t blocks_refused = 0;   // wrong size, non-finite or damaged; failed exchanges included
  uint64_t blocks_left_out = 0;  // by the codec, on both ends alike; failed exchanges included
  uint64_t thin_uplink = 0;      // by turns: boundaries when sending a payload took far longer than others' steps
};

struct PairsStatus {
  PairwiseCounters counters;
  uint64_t doubts_parked = 0;  // now: in doubt for so long that they no longer keep this agent from voting
  uint64_t turns = 0;          // by turns: exchanges that this agent has applied, initiated or accepted
};

}  // namespace starling
