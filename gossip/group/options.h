// What the exchange of a group is constructed with.
#pragma once

#include <cstdint>

#include "gossip/exchange/options.h"

namespace starling {

struct GroupOptions : ExchangeOptions {
  double inject_loss = 0;  // for experiments: drops this part of the blocks on receive, by a hash of
  uint64_t rng_seed = 0;   //   (rng_seed, round, sender, receiver, block, phase): the same for every algorithm
};

}  // namespace starling
