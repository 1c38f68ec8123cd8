// What the agent shares of its trainer: params and, where it is carried, momentum, in the layout's blocks. Turns them
// into payloads, and adds the deltas that exchanges decided. One call at a time, while the trainer is idle.
#pragma once

#include <cstdint>
#include <vector>

#include "agent/train/trainer.h"
#include "compression/codec.h"
#include "compression/layout.h"
#include "gossip/exchange/exchange.h"

namespace starling {

class SharedModel {
 public:
  // Section 0 of the layout is params, section 1 (if any) momentum.
  SharedModel(Trainer& trainer, const Codec& codec, const Layout& layout)
      : trainer_(trainer), codec_(codec), layout_(layout) {}

  // From now on what is encoded is the change since this call, not the params (source: gradients).
  void keep_base();

  void apply(const std::vector<PairDelta>& deltas);

  struct Encoded {
    bool healthy = true;       // false: something is not finite
    double params_rms = -1;    // negative: not measured this time
  };
  // Applies the deltas, takes their memory, and fills the snapshot's blocks.
  Encoded apply_and_encode(std::vector<PairDelta>& deltas, const std::vector<BlockState>& states, Snapshot* snapshot);

 private:
  View view_of(const Block& block);
  void apply_block(const std::vector<PairDelta>& deltas, size_t k, View x);
  bool encode_block(size_t k, View x, const BlockState& state, MutableBytes out);

  Trainer& trainer_;
  const Codec& codec_;
  const Layout& layout_;
  std::vector<float> base_, drift_;  // params at keep_base(); scratch for what changed since
  std::vector<CodecTerm> terms_;     // of the block being applied
};

}  // namespace starling
