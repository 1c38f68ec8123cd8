// What an exchange of pairs is constructed with.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gossip/exchange/options.h"

namespace starling {

struct PairwiseOptions : ExchangeOptions {
  // What costs no turn is tried again after this.
  Duration soon() const { return std::min(deadline_max, kDeadlineMax); }
  // The unit of bars on a peer that let an exchange end undecided: what that took.
  Duration bar(Duration took) const { return std::clamp(took, soon(), deadline_max); }

  uint64_t generation = 0;
  double clip = 0;             // guard: a distance counts at most clip * median of the recent ones; 0 = off
  uint32_t fragments = 1;      // an exchange carries one of so many parts of the model (fragments.h)
  bool by_turns = false;       // one payload serves one exchange and counts whole (SyncPairs); else shares of it
  uint64_t turns = 1;          // by turns: exchanges due at each of an agent's boundaries, initiated or accepted
  uint64_t turns_of_many = 1;  // so many or more are due while more than four agents meet by a schedule
};

}  // namespace starling
