#include "gossip/exchange/block_outcome.h"

#include "kernels/check.h"

namespace starling {

uint64_t& OutcomeTally::count_of(BlockOutcome outcome) {
  STARLING_CHECK(outcome != BlockOutcome::kHere);  // it has no outcome yet
  switch (outcome) {
    case BlockOutcome::kCounted: return tally_.counted;
    case BlockOutcome::kOld: return tally_.old;
    case BlockOutcome::kLate: return tally_.late;
    case BlockOutcome::kDead: return tally_.dead;
    case BlockOutcome::kRefused: return tally_.refused;
    case BlockOutcome::kInjected: return tally_.injected;
    case BlockOutcome::kMissing:
    case BlockOutcome::kHere: break;
  }
  return tally_.missing;
}

void OutcomeTally::settle(BlockOutcome* outcome, BlockOutcome value) {
  if (*outcome == BlockOutcome::kOld) return;
  const bool settled_before = *outcome >= BlockOutcome::kCounted;
  if (settled_before) --count_of(*outcome);
  tally_.due += settled_before ? 0 : 1;
  *outcome = value;
  ++count_of(value);
}

void OutcomeTally::settle_average(BlockOutcome* outcome, BlockOutcome value) {
  ++tally_.averages_due;
  tally_.averages_counted += value == BlockOutcome::kCounted ? 1 : 0;
  settle(outcome, value);
}

}  // namespace starling
