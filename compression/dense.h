// The dense codecs fp32, bf16 and fp16: every value in a fixed number of bytes. The delta is f(own, peer) = peer - own
// of the values as the payloads hold them. fp32 is exact; bf16 and fp16 round half to even. A difference too large for
// a float leaves its block out of the exchange. They remember nothing. Format: compression/dense_format.h. A value
// beyond 65504 is sent as 65504 by fp16: what it has more stays with its agent, as deltas are increments. The sum stays
// exact and nobody becomes infinite, but two agents that both are beyond it do not meet there.
#pragma once

#include "compression/codec.h"
#include "compression/dense_format.h"
#include "kernels/cast.h"
#include "kernels/pair.h"

namespace starling {

struct Fp32Element {
  static constexpr CodecKind kKind = CodecKind::kFp32;
  static constexpr size_t kBytes = dense_format::kFp32Bytes;
  static constexpr auto kEncode = f32_to_bytes;
  static constexpr auto kAllFinite = all_finite_f32;
  static constexpr auto kPairSums = pair_sums_f32;
  static constexpr auto kPairApply = pair_apply_f32;
};

struct Bf16Element {
  static constexpr CodecKind kKind = CodecKind::kBf16;
  static constexpr size_t kBytes = dense_format::kBf16Bytes;
  static constexpr auto kEncode = f32_to_bf16;
  static constexpr auto kAllFinite = all_finite_bf16;
  static constexpr auto kPairSums = pair_sums_bf16;
  static constexpr auto kPairApply = pair_apply_bf16;
};

struct Fp16Element {
  static constexpr CodecKind kKind = CodecKind::kFp16;
  static constexpr size_t kBytes = dense_format::kFp16Bytes;
  static constexpr auto kEncode = f32_to_fp16;
  static constexpr auto kAllFinite = all_finite_fp16;
  static constexpr auto kPairSums = pair_sums_fp16;
  static constexpr auto kPairApply = pair_apply_fp16;
};

template <class Element>
class DenseCodec final : public Codec {
 public:
  CodecKind kind() const override { return Element::kKind; }
  bool linear() const override { return true; }
  size_t payload_bytes_max(size_t element_count) const override { return element_count * Element::kBytes; }
  [[nodiscard]] std::optional<size_t> encode(ConstView x, const EncodeContext&, MutableBytes out) const override;
  PayloadStatus check(Bytes payload, size_t element_count) const override;
  PairStatus pair(Bytes own, Bytes peer, size_t element_count, PairStats* stats) const override;
  void apply(float coefficient, Bytes own, Bytes peer, View x) const override;
};

using Fp32Codec = DenseCodec<Fp32Element>;
using Bf16Codec = DenseCodec<Bf16Element>;
using Fp16Codec = DenseCodec<Fp16Element>;

}  // namespace starling
