#include "gossip/exchange/block_fate.h"

#include "kernels/check.h"

namespace starling {

uint64_t& FateTally::count_of(BlockFate fate) {
  STARLING_CHECK(fate != BlockFate::kHere);   // it has no fate yet
  switch (fate) {
    case BlockFate::kCounted: return tally_.counted;
    case BlockFate::kOld: return tally_.old;
    case BlockFate::kLate: return tally_.late;
    case BlockFate::kDead: return tally_.dead;
    case BlockFate::kRefused: return tally_.refused;
    case BlockFate::kInjected: return tally_.injected;
    case BlockFate::kMissing:
    case BlockFate::kHere: break;
  }
  return tally_.missing;
}

void FateTally::settle(BlockFate* fate, BlockFate value) {
  if (*fate == BlockFate::kOld) return;
  const bool settled_before = *fate >= BlockFate::kCounted;
  if (settled_before) --count_of(*fate);
  tally_.due += settled_before ? 0 : 1;
  *fate = value;
  ++count_of(value);
}

void FateTally::settle_average(BlockFate* fate, BlockFate value) {
  ++tally_.averages_due;
  tally_.averages_counted += value == BlockFate::kCounted ? 1 : 0;
  settle(fate, value);
}

}  // namespace starling
