#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/modulo.h"
#include "kernels/modulo_element.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/modulo_encode.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"
#include "kernels/modulo-inl.h"

#ifndef STARLING_MODULO_WEIGHTS
#define STARLING_MODULO_WEIGHTS
namespace starling {

constexpr std::array<uint32_t, kModuloRow> make_modulo_weights() {
  std::array<uint32_t, kModuloRow> weights{};
  for (uint32_t i = 0; i < kModuloRow; ++i) weights[i] = modulo_column_weight(i);
  return weights;
}
alignas(64) inline constexpr std::array<uint32_t, kModuloRow> kModuloWeights = make_modulo_weights();

}  // namespace starling
#endif  // STARLING_MODULO_WEIGHTS

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

struct EncodeRow {
  hn::Vec<Floats> scale;
  hn::Vec<Ints> max_bits = hn::Zero(Ints());
  hn::Vec<Words> projection = hn::Zero(Words());

  HWY_INLINE hn::Vec<Ints> quantise(const float* x, const uint32_t* weights) {
    const auto v = load_next(Floats(), x);
    max_bits = hn::Max(max_bits, magnitude_bits(Floats(), v));
    const auto q = nearest_int(hn::Mul(v, scale));
    projection = hn::Add(projection, hn::Mul(hn::BitCast(Words(), q), hn::LoadU(Words(), weights)));
    return q;
  }
  template <int kBits>
  HWY_INLINE void step(const float* x, const float* upper, size_t column, size_t half, std::byte* codes) {
    const auto mask = hn::Set(Ints(), (1 << kBits) - 1);
    auto code = hn::And(quantise(x, kModuloWeights.data() + column), mask);
    if constexpr (kBits == 4) {
      const auto above = hn::And(quantise(upper, kModuloWeights.data() + half + column), mask);
      code = hn::Or(code, hn::ShiftLeft<4>(above));
    }
    store_bytes(hn::DemoteTo(Codes(), code), Codes(), codes);
  }
};

template <int kBits>
HWY_INLINE ModuloEncoded encode(const float* x, size_t count, int exponent, std::byte* codes) {
  const size_t lanes = hn::Lanes(Floats());
  EncodeRow row{hn::Set(Floats(), std::ldexp(1.0f, -exponent))};
  ModuloEncoded result;
  for (size_t start = 0; start < count; start += kModuloRow) {
    const size_t elements = std::min(kModuloRow, count - start), bytes = modulo_code_bytes<kBits>(elements);
    const size_t half = kBits == 8 ? 0 : bytes, upper_end = elements - bytes;  // elements in the upper halves
    size_t i = 0;
    for (; i + lanes <= (kBits == 8 ? bytes : upper_end); i += lanes) {
      row.step<kBits>(x + i, x + half + i, i, half, codes + i);
    }
    for (; i < bytes; i += lanes) {
      float low[kLanes<Floats>], high[kLanes<Floats>];
      std::byte tail[kLanes<Floats>];
      padded(low, x + i, std::min(lanes, bytes - i));
      padded(high, x + (upper_end > i ? half + i : 0), upper_end > i ? std::min(lanes, upper_end - i) : 0);
      row.step<kBits>(low, high, i, half, tail);
      std::memcpy(codes + i, tail, std::min(lanes, bytes - i));
    }
    const uint32_t row_weight = modulo_row_weight(static_cast<uint32_t>(start / kModuloRow));
    result.projection += row_weight * sum_lanes(Words(), row.projection);
    row.projection = hn::Zero(Words());
    x += elements;
    codes += bytes;
  }
  result.max_abs_bits = static_cast<uint32_t>(max_lane(Ints(), row.max_bits));
  return result;
}

ModuloEncoded encode_8(const float* x, size_t count, int exponent, std::byte* codes) {
  return encode<8>(x, count, exponent, codes);
}
ModuloEncoded encode_4(const float* x, size_t count, int exponent, std::byte* codes) {
  return encode<4>(x, count, exponent, codes);
}
}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(encode_8);
HWY_EXPORT(encode_4);

template <>
ModuloEncoded modulo_encode<8>(const float* x, size_t count, int exponent, std::byte* codes) {
  return HWY_DYNAMIC_DISPATCH(encode_8)(x, count, exponent, codes);
}
template <>
ModuloEncoded modulo_encode<4>(const float* x, size_t count, int exponent, std::byte* codes) {
  return HWY_DYNAMIC_DISPATCH(encode_4)(x, count, exponent, codes);
}

}  // namespace starling
#endif  // HWY_ONCE
