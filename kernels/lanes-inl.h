// What the loops share, compiled once per instruction set. Include inside a foreach_target file, after highway.h.
// Guarded by toggle, not by #pragma once: every pass needs its own copy.
#if defined(STARLING_KERNELS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_LANES_INL_H_
#undef STARLING_KERNELS_LANES_INL_H_
#else
#define STARLING_KERNELS_LANES_INL_H_
#endif

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

// Keeps small arrays of vectors in registers; clang does so unasked.
#ifndef STARLING_UNROLL
#if HWY_COMPILER_GCC_ACTUAL
#define STARLING_UNROLL _Pragma("GCC unroll 16")
#else
#define STARLING_UNROLL
#endif
#endif

// Payloads are little-endian and read in place; arrays of vectors need a width known at compile time.
static_assert(std::endian::native == std::endian::little, "payload loops read little-endian bytes in place");

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
inline constexpr size_t kLanes = hn::MaxLanes(D());

// Calls step(d, i) for whole vectors, then lane by lane: `step` sees every element once.
template <typename T, class Step>
HWY_INLINE void for_each_vector(size_t count, const Step& step) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> d1;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) step(d, i);
  for (; i < count; ++i) step(d1, i);
}

// Fetches what a loop that reads in order comes to soon, as a core by itself asks for too little at a time. Nothing is
// read, so it may lie beyond the end.
HWY_INLINE void fetch_ahead(const void* from) {
  constexpr uintptr_t kAhead = 4096;  // bytes
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(from) + kAhead));
}

// One vector of an array that is read in order.
template <class D>
HWY_INLINE hn::Vec<D> load_next(D d, const hn::TFromD<D>* from) {
  fetch_ahead(from);
  return hn::LoadU(d, from);
}

// The same from bytes of any alignment.
template <class D>
HWY_INLINE hn::Vec<D> load_bytes(D d, const std::byte* from) {
  fetch_ahead(from);
#if HWY_TARGET == HWY_SCALAR
  hn::TFromD<D> value;
  std::memcpy(&value, from, sizeof(value));
  return hn::Set(d, value);
#else
  const hn::Repartition<uint8_t, D> d8;
  return hn::BitCast(d, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(from)));
#endif
}

template <class D>
HWY_INLINE void store_bytes(hn::Vec<D> value, D, std::byte* to) {
#if HWY_TARGET == HWY_SCALAR
  const hn::TFromD<D> lane = hn::GetLane(value);
  std::memcpy(to, &lane, sizeof(lane));
#else
  const hn::Repartition<uint8_t, D> d8;
  hn::StoreU(hn::BitCast(d8, value), d8, reinterpret_cast<uint8_t*>(to));
#endif
}

// Round half to even. Highway's one-lane NearestInt casts 2^31 to an int, which is undefined; libm and a bound are not.
template <class VF>
HWY_INLINE auto nearest_int(VF v) {
#if HWY_TARGET == HWY_SCALAR
  const hn::ScalableTag<int32_t> di;
  const float lane = hn::GetLane(v);
  return hn::Set(di, std::fabs(lane) < 2147483648.0f ? static_cast<int32_t>(std::rint(lane)) : INT32_MIN);
#else
  return hn::NearestInt(v);
#endif
}

// sum + products of int16 lanes, added in pairs into int32 lanes (mod 2^32; which pair goes where is free).
template <class D32, class V16>
HWY_INLINE hn::Vec<D32> add_products(D32 d32, V16 a, V16 b, hn::Vec<D32> sum) {
#if HWY_TARGET == HWY_SCALAR
  const uint32_t product = static_cast<uint32_t>(int32_t{hn::GetLane(a)} * int32_t{hn::GetLane(b)});
  return hn::Set(d32, static_cast<int32_t>(static_cast<uint32_t>(hn::GetLane(sum)) + product));
#else
  hn::Vec<D32> rest = hn::Zero(d32);
  const hn::Vec<D32> first = hn::ReorderWidenMulAccumulate(d32, a, b, sum, rest);
  return hn::Add(first, rest);
#endif
}

// Sum of the lanes, mod 2^32 for integers. Stored first: once per row, its cost does not show.
template <class D>
HWY_INLINE uint32_t sum_lanes(D d, hn::Vec<D> v) {
  HWY_ALIGN hn::TFromD<D> lanes[kLanes<D>];
  hn::Store(v, d, lanes);
  uint32_t sum = 0;
  for (size_t i = 0; i < hn::Lanes(d); ++i) sum += static_cast<uint32_t>(lanes[i]);
  return sum;
}

template <class D>
HWY_INLINE hn::TFromD<D> max_lane(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::MaxOfLanes(d, v));
}

// The bits of |v|: as integers they order like the magnitudes, infinity above every number and NaN above that.
template <class DF>
HWY_INLINE hn::Vec<hn::RebindToSigned<DF>> magnitude_bits(DF, hn::Vec<DF> v) {
  const hn::RebindToSigned<DF> di;
  return hn::And(hn::BitCast(di, v), hn::Set(di, 0x7FFFFFFF));
}

// The floats of binary16 values, one in the lower half of each lane (kernels/fp16_element.h).
template <class DF>
HWY_INLINE hn::Vec<DF> widen_fp16(DF d, hn::Vec<hn::RebindToSigned<DF>> halves) {
  const hn::RebindToSigned<DF> di;
  const auto magnitude = hn::And(halves, hn::Set(di, 0x7FFF));
  const auto sign = hn::ShiftLeft<16>(hn::And(halves, hn::Set(di, 0x8000)));
  const auto denormal = hn::BitCast(di, hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-24f)));
  const auto rebias =
      hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7BFF)), hn::Set(di, 0x70000000), hn::Set(di, 0x38000000));
  const auto normal = hn::Add(hn::ShiftLeft<13>(magnitude), rebias);
  const auto value = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x400)), denormal, normal);
  return hn::BitCast(d, hn::Or(value, sign));
}

// Sixteen running sums in double, of squares or of magnitudes. Element i always goes to sum i mod 16 and the sixteen
// are added in order, so the result is the same bits on every vector width.
class SquareSums {
 public:
  static constexpr size_t kGroup = 16;
  using Wide = hn::CappedTag<double, 8>;
  using Narrow = hn::Rebind<float, Wide>;
  static constexpr size_t kStep = kLanes<Wide>;
  static constexpr size_t kSteps = kGroup / kStep;

  HWY_INLINE SquareSums() { STARLING_UNROLL for (size_t v = 0; v < kSteps; ++v) sums_[v] = hn::Zero(Wide()); }
  // `step` = which part of the group of sixteen these lanes are.
  HWY_INLINE void add(size_t step, hn::Vec<Narrow> v) {
    const hn::Vec<Wide> wide = hn::PromoteTo(Wide(), v);
    sums_[step] = hn::Add(sums_[step], hn::Mul(wide, wide));
  }
  HWY_INLINE void add_magnitude(size_t step, hn::Vec<Narrow> v) {
    sums_[step] = hn::Add(sums_[step], hn::PromoteTo(Wide(), hn::Abs(v)));
  }
  HWY_INLINE double total() const {
    double lanes[kGroup];
    STARLING_UNROLL for (size_t v = 0; v < kSteps; ++v) hn::StoreU(sums_[v], Wide(), lanes + v * kStep);
    double sum = 0;
    for (double lane : lanes) sum += lane;
    return sum;
  }

 private:
  hn::Vec<Wide> sums_[kSteps];
};

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#endif  // toggle
