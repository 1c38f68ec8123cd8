// The modulo8 codec: one byte per element. Each side writes its params as multiples of its own power-of-two step,
// keeping the lowest 8 bits; the difference of two codes is the true difference as long as that is below 128 steps.
// One random projection per block tells whether it was. Format: compression/modulo8_format.h; how the step is
// chosen: compression/modulo8_step.h; why so: compression/README.md.
#pragma once

#include "compression/codec.h"

namespace starling {

class Modulo8Codec final : public Codec {
 public:
  CodecKind kind() const override { return CodecKind::kModulo8; }
  bool linear() const override { return false; }
  size_t payload_bytes(size_t element_count) const override;
  [[nodiscard]] bool encode(ConstView x, const BlockState& state, MutableBytes out) const override;
  PayloadStatus check(Bytes payload, size_t element_count) const override;
  PairStatus pair(Bytes own, Bytes peer, size_t element_count, PairStats* stats) const override;
  void apply(float coefficient, Bytes own, Bytes peer, View x) const override;
  void learn(PairStatus status, const PairStats& stats, Bytes own, Bytes peer, BlockState* state) const override;
};

}  // namespace starling
