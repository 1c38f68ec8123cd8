// What became of each block that is due. Each is counted once, under one cause.
#pragma once

#include <cstdint>

#include "gossip/exchange/exchange.h"

namespace starling {

// Final from kCounted on.
enum class BlockOutcome : uint8_t { kMissing, kHere, kCounted, kOld, kLate, kRefused, kInjected, kDead };

class OutcomeTally {
 public:
  // A block that its sender's previous payload replaced stays kOld, even if it arrives later.
  void settle(BlockOutcome* outcome, BlockOutcome value);
  void settle_average(BlockOutcome* outcome, BlockOutcome value);  // for the averages that owners send back
  void ignore() { ++tally_.ignored_messages; }

  const BlockTally& tally() const { return tally_; }

 private:
  uint64_t& count_of(BlockOutcome outcome);

  BlockTally tally_;
};

}  // namespace starling
