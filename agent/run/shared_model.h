// What the agent shares of its trainer, in named sections cut into blocks, and the encoder that makes payloads of them.
// Adds the deltas that exchanges decided. One call at a time, while the trainer is idle: from worker jobs only once the
// rounds have begun, so that one thread alone changes the codec's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/train/trainer.h"
#include "compression/encoder.h"
#include "gossip/exchange/exchange.h"

namespace starling {

// A vector of the trainer's that is shared; in place for the trainer's life.
struct SharedSection {
  std::string name;
  View view;
};

class SharedModel {
 public:
  // The sections are encoded in this order; the first is params.
  SharedModel(Trainer& trainer, std::vector<SharedSection> sections, std::unique_ptr<Codec> codec,
              size_t block_elements);

  Encoder& encoder() { return encoder_; }

  // From now on what is encoded is the change since this call, not the params (source: gradients).
  void keep_base();

  // Applies the deltas and learns the lessons.
  void apply(const Decided& decided);

  struct Encoded {
    bool healthy = true;       // false: something is not finite
    double params_rms = -1;    // negative: not measured this time
  };
  // As apply(), which takes the deltas' memory block by block, and fills the snapshot's blocks.
  Encoded apply_and_encode(Decided& decided, Snapshot* snapshot);

 private:
  View view_of(const Block& block);
  void learn(const std::vector<BlockLesson>& lessons);
  void apply_block(const std::vector<PairDelta>& deltas, size_t k, View x);
  ConstView what_is_shared(size_t k, View x);

  Trainer& trainer_;
  std::vector<SharedSection> sections_;
  Encoder encoder_;
  std::vector<float> base_, drift_;  // params at keep_base(); scratch for what changed since
  std::vector<CodecTerm> terms_;     // of the block being applied
};

}  // namespace starling
