// Loss on purpose, for experiments: the same blocks are lost whatever algorithm runs.
#pragma once

#include <cstdint>

#include "gossip/peer.h"

namespace starling {

// One frame, by what it carries. `phase`: 0 a contribution, 1 an owner's reply.
struct LossyFrame {
  uint64_t round = 0;
  PeerId from, to;
  uint32_t index = 0;
  uint8_t phase = 0;
};

// True for the part `loss` of all frames, by a hash of the seed and the frame.
bool injected_loss(double loss, uint64_t rng_seed, const LossyFrame& frame);

}  // namespace starling
