// The arithmetic of a block's owner: a pure function that runs on the worker.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compression/codec.h"
#include "gossip/exchange/snapshot.h"
#include "gossip/group/group_guard.h"

namespace starling {

// Averages the contributions to block `index`, weighted by mass. The owner's own payload always counts.
struct AverageJob {
  struct Item {
    size_t rank = 0;
    double mass = 0;
    SharedBytes payload;
    bool late = false;   // a contribution of the previous round
    bool passed = true;  // out: it is in the average
    bool far = false;    // out: it is not, because of the rule
  };
  std::shared_ptr<const Snapshot> own;
  size_t self = 0;          // own rank
  std::vector<Item> items;  // by rank
  FarRule rule;
  SharedBytes average;          // out; empty: the average is not finite
  uint32_t counted = 0;         // out: the ranks in the average, as bits
  double squared_distance = 0;  // out: from the own block
};

void run_average(const Codec& codec, uint32_t index, size_t element_count, AverageJob& job);

}  // namespace starling
