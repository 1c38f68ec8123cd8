#include "kernels/cast.h"

#include <cstdint>
#include <cstring>

#include "kernels/fp16_element.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cast.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

// Keeps the largest value seen, in two accumulators: whole vectors and single lanes.
template <typename T>
struct Largest {
  hn::Vec<hn::ScalableTag<T>> whole;
  T single = 0;

  HWY_INLINE Largest() : whole(hn::Zero(hn::ScalableTag<T>())) {}
  HWY_INLINE void see(hn::ScalableTag<T>, hn::Vec<hn::ScalableTag<T>> v) { whole = hn::Max(whole, v); }
#if HWY_TARGET != HWY_SCALAR  // where both tags are the same type
  HWY_INLINE void see(hn::CappedTag<T, 1>, hn::Vec<hn::CappedTag<T, 1>> v) { single = HWY_MAX(single, hn::GetLane(v)); }
#endif
  HWY_INLINE T value() const { return HWY_MAX(single, max_lane(hn::ScalableTag<T>(), whole)); }
};

bool f32_to_bytes_loop(const float* x, size_t count, std::byte* out) {
  Largest<int32_t> bits;
  for_each_vector<float>(count, [&](auto d, size_t i) HWY_ATTR {
    const auto v = load_next(d, x + i);
    bits.see(hn::RebindToSigned<decltype(d)>(), magnitude_bits(d, v));
    store_bytes(v, d, out + i * sizeof(float));
  });
  return bits.value() <= 0x7F7FFFFF;
}

bool f32_to_bf16_loop(const float* x, size_t count, std::byte* out) {
  Largest<int32_t> bits;
  for_each_vector<float>(count, [&](auto d, size_t i) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<uint16_t, decltype(d)> d16;
    const auto v = load_next(d, x + i);
    const auto magnitude = magnitude_bits(d, v);
    bits.see(di, magnitude);
    const auto odd = hn::And(hn::ShiftRight<16>(magnitude), hn::Set(di, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(magnitude, hn::Set(di, 0x7FFF)), odd));
    const auto finite = hn::Min(rounded, hn::Set(di, 0x7F7F));
    // An infinity has no low bits; a NaN keeps its high ones and the quiet bit, so it cannot turn into an infinity.
    const auto infinity = hn::Set(di, 0x7F800000);
    const auto quiet = hn::IfThenElseZero(hn::Gt(magnitude, infinity), hn::Set(di, 0x40));
    const auto other = hn::Or(hn::ShiftRight<16>(magnitude), quiet);
    const auto value = hn::IfThenElse(hn::Lt(magnitude, infinity), finite, other);
    const auto sign = hn::And(hn::ShiftRight<16>(hn::BitCast(di, v)), hn::Set(di, 0x8000));
    store_bytes(hn::DemoteTo(d16, hn::Or(value, sign)), d16, out + i * sizeof(uint16_t));
  });
  return bits.value() <= 0x7F7FFFFF;
}

// Below 2^-14 the last bit of a binary16 stands for 2^-24, as it does in a float of [1/2, 1): adding 1/2 rounds.
bool f32_to_fp16_loop(const float* x, size_t count, std::byte* out) {
  Largest<int32_t> bits;
  for_each_vector<float>(count, [&](auto d, size_t i) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<uint16_t, decltype(d)> d16;
    const auto v = load_next(d, x + i);
    const auto magnitude = magnitude_bits(d, v);
    bits.see(di, magnitude);
    const auto shifted = hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f)));
    const auto denormal = hn::Sub(shifted, hn::Set(di, 0x3F000000));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1));
    const auto rebiased = hn::Sub(magnitude, hn::Set(di, int32_t{kFp16Rebias} - 0xFFF));
    const auto normal = hn::Min(hn::ShiftRight<13>(hn::Add(rebiased, odd)), hn::Set(di, int32_t{kFp16Largest}));
    const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, int32_t{kFp16Normal})), denormal, normal);
    const auto infinity = hn::Set(di, 0x7F800000);
    const auto quiet = hn::IfThenElseZero(hn::Gt(magnitude, infinity), hn::Set(di, 0x200));
    const auto other = hn::Or(hn::Set(di, int32_t{kFp16Infinity}), quiet);
    const auto value = hn::IfThenElse(hn::Lt(magnitude, infinity), finite, other);
    const auto sign = hn::And(hn::ShiftRight<16>(hn::BitCast(di, v)), hn::Set(di, 0x8000));
    store_bytes(hn::DemoteTo(d16, hn::Or(value, sign)), d16, out + i * sizeof(uint16_t));
  });
  return bits.value() <= 0x7F7FFFFF;
}

void bf16_to_f32_loop(const std::byte* bytes, size_t count, float* out) {
  for_each_vector<float>(count, [&](auto d, size_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> d32;
    const hn::Rebind<uint16_t, decltype(d)> d16;
    const auto upper = hn::PromoteTo(d32, load_bytes(d16, bytes + i * sizeof(uint16_t)));
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(upper)), d, out + i);
  });
}

bool all_finite_f32_loop(const std::byte* bytes, size_t count) {
  Largest<int32_t> bits;
  for_each_vector<int32_t>(count, [&](auto d, size_t i) HWY_ATTR {
    bits.see(d, hn::And(load_bytes(d, bytes + i * sizeof(float)), hn::Set(d, 0x7FFFFFFF)));
  });
  return bits.value() <= 0x7F7FFFFF;
}

HWY_INLINE int16_t largest_of_halves(const std::byte* bytes, size_t count) {
  Largest<int16_t> bits;
  for_each_vector<int16_t>(count, [&](auto d, size_t i) HWY_ATTR {
    bits.see(d, hn::And(load_bytes(d, bytes + i * sizeof(int16_t)), hn::Set(d, int16_t{0x7FFF})));
  });
  return bits.value();
}

bool all_finite_bf16_loop(const std::byte* bytes, size_t count) { return largest_of_halves(bytes, count) <= 0x7F7F; }
bool all_finite_fp16_loop(const std::byte* bytes, size_t count) { return largest_of_halves(bytes, count) <= 0x7BFF; }

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(f32_to_bytes_loop);
HWY_EXPORT(f32_to_bf16_loop);
HWY_EXPORT(f32_to_fp16_loop);
HWY_EXPORT(bf16_to_f32_loop);
HWY_EXPORT(all_finite_f32_loop);
HWY_EXPORT(all_finite_bf16_loop);
HWY_EXPORT(all_finite_fp16_loop);

bool f32_to_bytes(const float* x, size_t count, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(f32_to_bytes_loop)(x, count, out);
}
bool f32_to_bf16(const float* x, size_t count, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(f32_to_bf16_loop)(x, count, out);
}
bool f32_to_fp16(const float* x, size_t count, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(f32_to_fp16_loop)(x, count, out);
}
void bf16_to_f32(const std::byte* bytes, size_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(bf16_to_f32_loop)(bytes, count, out);
}
bool all_finite_f32(const std::byte* bytes, size_t count) {
  return HWY_DYNAMIC_DISPATCH(all_finite_f32_loop)(bytes, count);
}
bool all_finite_bf16(const std::byte* bytes, size_t count) {
  return HWY_DYNAMIC_DISPATCH(all_finite_bf16_loop)(bytes, count);
}
bool all_finite_fp16(const std::byte* bytes, size_t count) {
  return HWY_DYNAMIC_DISPATCH(all_finite_fp16_loop)(bytes, count);
}

}  // namespace starling
#endif  // HWY_ONCE
