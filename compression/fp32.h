// The fp32 codec. Exact. f(own, peer) = peer - own.
// No step, so learn() has nothing to remember. A difference too large for a float counts as kWrapped.
// Format: compression/fp32_format.h.
#pragma once

#include "compression/codec.h"

namespace starling {

class Fp32Codec final : public Codec {
 public:
  CodecKind kind() const override { return CodecKind::kFp32; }
  CodecTraits traits() const override {
    return {.linear = true, .unbiased = true, .needs_residual = false, .messages = 1};
  }
  size_t payload_bytes(size_t element_count) const override;
  [[nodiscard]] bool encode(ConstView x, const BlockState& state, MutableBytes out) const override;
  PayloadStatus check(Bytes payload, size_t element_count) const override;
  PairStatus pair(Bytes own, Bytes peer, size_t element_count, PairStats* stats) const override;
  void apply(float coefficient, Bytes own, Bytes peer, View x) const override;
  void learn(PairStatus status, const PairStats& stats, Bytes own, Bytes peer, BlockState* state) const override;
};

}  // namespace starling
