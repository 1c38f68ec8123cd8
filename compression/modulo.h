// The codecs modulo8 and modulo4 (modulo-quantised gossip, as in Moniqua): one byte, or half of one, per element. Each
// side writes its params as multiples of its own power-of-two step, keeping the lowest 8 or 4 bits. The difference of
// two codes is the true difference as long as that is below 128, or 8, steps. One random projection per block tells
// whether it was. Format: compression/modulo_format.h; how the step is chosen, and why: compression/modulo_step.h.
#pragma once

#include "compression/codec.h"
#include "compression/modulo_step.h"

namespace starling {

// The exponent of the step of the next snapshot; none while the block was in no exchange yet.
class ModuloMemory final : public CodecMemory {
 public:
  std::vector<std::byte> save() const override;  // one byte, int8: the exponent, or -128 for none
  [[nodiscard]] bool load(Bytes saved) override;

  std::optional<int> exponent;  // where there is one, legal
};

template <int kBits>
class ModuloCodec final : public Codec {
 public:
  static constexpr const ModuloSteps& kSteps = kModuloSteps<kBits>;

  CodecKind kind() const override { return kBits == 8 ? CodecKind::kModulo8 : CodecKind::kModulo4; }
  bool linear() const override { return false; }
  size_t payload_bytes_max(size_t element_count) const override;  // every payload has this size
  std::unique_ptr<CodecMemory> make_memory(size_t element_count) const override;
  [[nodiscard]] std::optional<size_t> encode(ConstView x, const EncodeContext& context,
                                             MutableBytes out) const override;
  PayloadStatus check(Bytes payload, size_t element_count) const override;
  PairStatus pair(Bytes own, Bytes peer, size_t element_count, PairStats* stats) const override;
  bool comparable(Bytes own, Bytes peer) const override;
  void apply(float coefficient, Bytes own, Bytes peer, View x) const override;
  size_t learnable_bytes(size_t payload_bytes) const override;
  void learn(const PairVerdict& verdict, CodecMemory* memory) const override;
};

using Modulo8Codec = ModuloCodec<8>;
using Modulo4Codec = ModuloCodec<4>;

}  // namespace starling
