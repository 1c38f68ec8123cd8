#include "kernels/pair.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pair.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

struct F32Values {
  static constexpr size_t kBytes = 4;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
    return load_bytes(d, from);
  }
};

struct Bf16Values {
  static constexpr size_t kBytes = 2;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
    const hn::RebindToUnsigned<D> d32;
    const hn::Rebind<uint16_t, D> d16;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, load_bytes(d16, from))));
  }
};

struct Fp16Values {
  static constexpr size_t kBytes = 2;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
    const hn::RebindToSigned<D> d32;
    const hn::Rebind<uint16_t, D> d16;
    return widen_fp16(d, hn::PromoteTo(d32, load_bytes(d16, from)));
  }
};

template <class Values>
HWY_INLINE PairSums sums(const std::byte* own, const std::byte* peer, size_t count) {
  constexpr size_t kGroup = SquareSums::kGroup;
  SquareSums squares;
  const SquareSums::Narrow d;
  const hn::RebindToSigned<SquareSums::Narrow> di;
  auto largest = hn::Zero(di);
  const auto add_group = [&](const std::byte* a, const std::byte* b) HWY_ATTR {
    STARLING_UNROLL for (size_t v = 0; v < SquareSums::kSteps; ++v) {
      const size_t at = v * SquareSums::kStep * Values::kBytes;
      const auto difference = hn::Sub(Values::load(d, b + at), Values::load(d, a + at));
      squares.add(v, difference);
      largest = hn::Max(largest, magnitude_bits(d, difference));
    }
  };
  size_t i = 0;
  for (; i + kGroup <= count; i += kGroup) add_group(own + i * Values::kBytes, peer + i * Values::kBytes);
  if (i < count) {
    std::byte tail_own[kGroup * Values::kBytes] = {};
    std::byte tail_peer[kGroup * Values::kBytes] = {};
    std::memcpy(tail_own, own + i * Values::kBytes, (count - i) * Values::kBytes);
    std::memcpy(tail_peer, peer + i * Values::kBytes, (count - i) * Values::kBytes);
    add_group(tail_own, tail_peer);
  }
  return {squares.total(), std::bit_cast<float>(max_lane(di, largest))};
}

template <class Values, class D>
HWY_INLINE void apply_vector(D d, hn::Vec<D> factor, const std::byte* own, const std::byte* peer, float* x) {
  const auto difference = hn::Sub(Values::load(d, peer), Values::load(d, own));
  hn::StoreU(hn::Add(load_next(d, x), hn::Mul(factor, difference)), d, x);
}

template <class Values>
HWY_INLINE void apply(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x) {
  constexpr size_t kBytes = Values::kBytes;
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    apply_vector<Values>(d, hn::Set(d, coefficient), own + i * kBytes, peer + i * kBytes, x + i);
  }
  for (; i < count; ++i) {
    apply_vector<Values>(d1, hn::Set(d1, coefficient), own + i * kBytes, peer + i * kBytes, x + i);
  }
}

PairSums sums_f32(const std::byte* own, const std::byte* peer, size_t count) {
  return sums<F32Values>(own, peer, count);
}
PairSums sums_bf16(const std::byte* own, const std::byte* peer, size_t count) {
  return sums<Bf16Values>(own, peer, count);
}
PairSums sums_fp16(const std::byte* own, const std::byte* peer, size_t count) {
  return sums<Fp16Values>(own, peer, count);
}
void apply_f32(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x) {
  apply<F32Values>(coefficient, own, peer, count, x);
}
void apply_bf16(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x) {
  apply<Bf16Values>(coefficient, own, peer, count, x);
}
void apply_fp16(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x) {
  apply<Fp16Values>(coefficient, own, peer, count, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(sums_f32);
HWY_EXPORT(sums_bf16);
HWY_EXPORT(sums_fp16);
HWY_EXPORT(apply_f32);
HWY_EXPORT(apply_bf16);
HWY_EXPORT(apply_fp16);

PairSums pair_sums_f32(const std::byte* own, const std::byte* peer, size_t count) {
  return HWY_DYNAMIC_DISPATCH(sums_f32)(own, peer, count);
}
PairSums pair_sums_bf16(const std::byte* own, const std::byte* peer, size_t count) {
  return HWY_DYNAMIC_DISPATCH(sums_bf16)(own, peer, count);
}
PairSums pair_sums_fp16(const std::byte* own, const std::byte* peer, size_t count) {
  return HWY_DYNAMIC_DISPATCH(sums_fp16)(own, peer, count);
}
void pair_apply_f32(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x) {
  HWY_DYNAMIC_DISPATCH(apply_f32)(coefficient, own, peer, count, x);
}
void pair_apply_bf16(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x) {
  HWY_DYNAMIC_DISPATCH(apply_bf16)(coefficient, own, peer, count, x);
}
void pair_apply_fp16(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x) {
  HWY_DYNAMIC_DISPATCH(apply_fp16)(coefficient, own, peer, count, x);
}

}  // namespace starling
#endif  // HWY_ONCE
