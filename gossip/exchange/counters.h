// What pair exchanges and groups count since this agent began.
#pragma once

#include <cstdint>

namespace starling {

struct PairwiseCounters {
  uint64_t initiated = 0, accepted = 0, done = 0, late = 0, failed = 0, busy_sent = 0, busy_received = 0;
  uint64_t clipped = 0;             // of done and late: a guard, own or the peer's, scaled the delta down
  uint64_t guard_refused = 0;       // of failed: the peer was too far away for any scale
  uint64_t gain_permille = 0;       // of done and late, the sum: 1000 where both moved to the middle of their masses
  uint64_t unanswered = 0;          // of failed: proposals of this agent that nobody answered until its deadline
  uint64_t undecided = 0;           // of failed: began in either role, and the peer let the time run out
  uint64_t crossed = 0;             // by turns: two proposals that became one exchange
  uint64_t queued = 0, expired = 0; // by turns: foreign proposals that waited for a turn; those of them in vain
  uint64_t queued_turn = 0;         // of queued: this agent was in an exchange. The others: in its steps, or encoded
  uint64_t queued_asking = 0;       // of queued: its own proposal was not answered yet
  uint64_t rings = 0;               // of busy_sent: the proposal might have closed a ring of waiting
  // By turns, microseconds in which no step was taken: an own proposal was not answered, an own exchange was under way,
  // one that another began.
  uint64_t asking_us = 0, own_us = 0, serving_us = 0;
  uint64_t over_share = 0;          // by turns, of busy_sent: the peer had had its share of this agent's turns
  uint64_t taken_back = 0;          // by turns: deltas applied at the vote and undone, since the decision was another
  uint64_t doubts_broken = 0;       // beyond kParkedDoubtsMax; the proposer may have applied its half
  uint64_t blocks_refused = 0;      // wrong size, non-finite or damaged; failed exchanges included
  uint64_t blocks_left_out = 0;     // by the codec, on both ends alike; failed exchanges included
  uint64_t thin_uplink = 0;         // by turns: boundaries when sending a payload took far longer than others' steps
};

struct GroupCounters {
  uint64_t rounds = 0, rounds_whole = 0;   // whole: every block of both phases arrived in time
};

// The log of updates.
struct UpdateCounters {
  uint64_t entries = 0, payloads = 0;   // in the own logs, over all slices: how long they are, and what they count
  uint64_t behind = 0;              // entries that the log farthest behind lacks, as others claim
  uint64_t made = 0;                // entries, as owner
  uint64_t short_splits = 0;        // another log took over, and what only the old one counted was taken back
  uint64_t long_splits = 0;         // likewise, and the difference of both became drift
  uint64_t states_adopted = 0;      // slices taken over as a whole
  uint64_t audits_failed = 0;       // slices that were not what most others have under the same head
  uint64_t payloads_refused = 0;    // this and the last three: as UpdateRefusals says
  uint64_t pulls = 0;
  uint64_t early = 0;               // payloads that were handed in while backward still went on
  uint64_t buckets = 0, plan_since = 0;   // of the log's merge plan, and the first round that it holds in; 0: none
  uint64_t plans_refused = 0;
  uint64_t frames_saved = 0;        // that were not sent because a plan put them into others
  uint64_t entries_refused = 0, blocks_refused = 0, heads_refused = 0;

  // What others sent and no member should: it changed nothing here.
  uint64_t refused() const { return payloads_refused + entries_refused + blocks_refused + heads_refused; }
};

}  // namespace starling
