// What became of each block that is due. Each is counted once, under one cause.
#pragma once

#include <cstdint>

#include "gossip/exchange/exchange.h"

namespace starling {

// Final from kCounted on.
enum class BlockFate : uint8_t { kMissing, kHere, kCounted, kOld, kLate, kRefused, kInjected, kDead };

class FateTally {
 public:
  // A block that its sender's previous payload replaced stays kOld, even if it arrives later.
  void settle(BlockFate* fate, BlockFate value);
  void settle_average(BlockFate* fate, BlockFate value);   // for the averages that owners send back
  void ignore() { ++tally_.ignored_messages; }

  const BlockTally& tally() const { return tally_; }

 private:
  uint64_t& count_of(BlockFate fate);

  BlockTally tally_;
};

}  // namespace starling
