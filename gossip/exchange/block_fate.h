// What became of each block that is due, counted once and under one cause.
#pragma once

#include <cstdint>

#include "gossip/exchange/exchange.h"

namespace starling {

// Final from kCounted on.
enum class BlockFate : uint8_t { kMissing, kHere, kCounted, kOld, kLate, kRefused, kInjected, kDead };

class FateTally {
 public:
  // A block whose sender's last payload counted stays kOld, whatever else comes of it.
  void settle(BlockFate* fate, BlockFate value);
  void settle_average(BlockFate* fate, BlockFate value);   // of those that owners send back
  void ignore() { ++tally_.ignored_messages; }

  const BlockTally& tally() const { return tally_; }

 private:
  uint64_t& count_of(BlockFate fate);

  BlockTally tally_;
};

}  // namespace starling
