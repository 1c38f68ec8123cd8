#include "kernels/modulo.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/modulo_element.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/modulo.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

#ifndef STARLING_MODULO_TABLES
#define STARLING_MODULO_TABLES
namespace starling {

// The column weights, whole and as two signed halves: weight = 65536 * high + low mod 2^32. Differences of codes
// fit in 16 bits, so the halves meet them in the multiply-add-pairs instruction.
struct ModuloTables {
  alignas(64) std::array<uint32_t, kModuloRow> whole{};
  alignas(64) std::array<int16_t, kModuloRow> low{};
  alignas(64) std::array<int16_t, kModuloRow> high{};
};

constexpr ModuloTables make_modulo_tables() {
  ModuloTables tables;
  for (uint32_t i = 0; i < kModuloRow; ++i) {
    const uint32_t weight = modulo_column_weight(i);
    const int16_t low = static_cast<int16_t>(weight & 0xFFFFu);
    tables.whole[i] = weight;
    tables.low[i] = low;
    tables.high[i] = static_cast<int16_t>((weight - static_cast<uint32_t>(int32_t{low})) >> 16);
  }
  return tables;
}
inline constexpr ModuloTables kModuloTables = make_modulo_tables();

}  // namespace starling
#endif  // STARLING_MODULO_TABLES

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using Codes = hn::Rebind<uint8_t, Floats>;  // as many codes as floats
using Shorts = hn::ScalableTag<int16_t>;
using Pairs = hn::RepartitionToWide<Shorts>;
using ShortCodes = hn::Rebind<uint8_t, Shorts>;  // as many codes as shorts

struct EncodeRow {
  hn::Vec<Floats> scale;
  hn::Vec<Ints> max_bits = hn::Zero(Ints());
  hn::Vec<Words> projection = hn::Zero(Words());

  HWY_INLINE void step(const float* x, const uint32_t* weights, std::byte* codes) {
    const auto v = hn::LoadU(Floats(), x);
    max_bits = hn::Max(max_bits, magnitude_bits(Floats(), v));
    const auto q = nearest_int(hn::Mul(v, scale));
    store_bytes(hn::DemoteTo(Codes(), hn::And(q, hn::Set(Ints(), 0xFF))), Codes(), codes);
    projection = hn::Add(projection, hn::Mul(hn::BitCast(Words(), q), hn::Load(Words(), weights)));
  }
};

ModuloEncoded encode_loop(const float* x, size_t count, int exponent, std::byte* codes) {
  const size_t lanes = hn::Lanes(Floats());
  EncodeRow row{hn::Set(Floats(), std::ldexp(1.0f, -exponent))};
  ModuloEncoded result;
  for (size_t start = 0; start < count; start += kModuloRow) {
    const size_t end = std::min(count, start + kModuloRow);
    const uint32_t* weights = kModuloTables.whole.data();
    size_t i = start;
    for (; i + lanes <= end; i += lanes) row.step(x + i, weights + (i - start), codes + i);
    if (i < end) {  // padded with zeros, which add nothing to any result
      float tail_x[kLanes<Floats>] = {};
      std::byte tail_codes[kLanes<Floats>];
      std::memcpy(tail_x, x + i, (end - i) * sizeof(float));
      row.step(tail_x, weights + (i - start), tail_codes);
      std::memcpy(codes + i, tail_codes, end - i);
    }
    const uint32_t row_weight = modulo_row_weight(static_cast<uint32_t>(start / kModuloRow));
    result.projection += row_weight * sum_lanes(Words(), row.projection);
    row.projection = hn::Zero(Words());
  }
  result.max_abs_bits = static_cast<uint32_t>(max_lane(Ints(), row.max_bits));
  return result;
}

// Sign-extends the low byte of each lane; -128 becomes 0.
template <class D>
HWY_INLINE hn::Vec<D> wrap_to_byte(D d, hn::Vec<D> v) {
  constexpr int kBits = 8 * sizeof(hn::TFromD<D>) - 8;
  const auto wrapped = hn::ShiftRight<kBits>(hn::ShiftLeft<kBits>(v));
  return hn::IfThenZeroElse(hn::Eq(wrapped, hn::Set(d, hn::TFromD<D>{-128})), wrapped);
}

struct PairRow {
  int own_shift;
  int peer_shift;
  hn::Vec<Shorts> largest = hn::Zero(Shorts());
  hn::Vec<Pairs> low = hn::Zero(Pairs());
  hn::Vec<Pairs> high = hn::Zero(Pairs());
  hn::Vec<Pairs> squares = hn::Zero(Pairs());

  HWY_INLINE void step(const std::byte* own, const std::byte* peer, size_t column) {
    const auto a = hn::PromoteTo(Shorts(), load_bytes(ShortCodes(), own));
    const auto b = hn::PromoteTo(Shorts(), load_bytes(ShortCodes(), peer));
    const auto d = wrap_to_byte(Shorts(), hn::Sub(hn::ShiftLeftSame(b, peer_shift), hn::ShiftLeftSame(a, own_shift)));
    largest = hn::Max(largest, hn::Abs(d));
    low = add_products(Pairs(), d, hn::Load(Shorts(), kModuloTables.low.data() + column), low);
    high = add_products(Pairs(), d, hn::Load(Shorts(), kModuloTables.high.data() + column), high);
    squares = add_products(Pairs(), d, d, squares);
  }
};

ModuloPair pair_loop(const std::byte* own, int own_shift, const std::byte* peer, int peer_shift, size_t count) {
  const size_t lanes = hn::Lanes(Shorts());
  PairRow row{own_shift, peer_shift};
  ModuloPair result;
  for (size_t start = 0; start < count; start += kModuloRow) {
    const size_t end = std::min(count, start + kModuloRow);
    size_t i = start;
    for (; i + lanes <= end; i += lanes) row.step(own + i, peer + i, i - start);
    if (i < end) {
      std::byte tail_own[kLanes<Shorts>] = {};
      std::byte tail_peer[kLanes<Shorts>] = {};
      std::memcpy(tail_own, own + i, end - i);
      std::memcpy(tail_peer, peer + i, end - i);
      row.step(tail_own, tail_peer, i - start);
    }
    const uint32_t sum = sum_lanes(Pairs(), row.low) + (sum_lanes(Pairs(), row.high) << 16);
    result.projection += modulo_row_weight(static_cast<uint32_t>(start / kModuloRow)) * sum;
    result.sum_squares += sum_lanes(Pairs(), row.squares);  // one row's squares fit: 4096 * 127^2 < 2^31
    row.low = row.high = row.squares = hn::Zero(Pairs());
  }
  result.max_abs = static_cast<uint32_t>(max_lane(Shorts(), row.largest));
  return result;
}

struct ApplyVector {
  hn::Vec<Floats> factor;
  int own_shift;
  int peer_shift;

  HWY_INLINE void step(const std::byte* own, const std::byte* peer, float* x) const {
    const auto a = hn::PromoteTo(Ints(), load_bytes(Codes(), own));
    const auto b = hn::PromoteTo(Ints(), load_bytes(Codes(), peer));
    const auto d = wrap_to_byte(Ints(), hn::Sub(hn::ShiftLeftSame(b, peer_shift), hn::ShiftLeftSame(a, own_shift)));
    const auto delta = hn::Mul(factor, hn::ConvertTo(Floats(), d));
    hn::StoreU(hn::Add(hn::LoadU(Floats(), x), delta), Floats(), x);
  }
};

void apply_loop(float factor, const std::byte* own, int own_shift, const std::byte* peer, int peer_shift, size_t count,
                float* x) {
  const size_t lanes = hn::Lanes(Floats());
  const ApplyVector apply{hn::Set(Floats(), factor), own_shift, peer_shift};
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) apply.step(own + i, peer + i, x + i);
  if (i < count) {
    std::byte tail_own[kLanes<Floats>] = {};
    std::byte tail_peer[kLanes<Floats>] = {};
    float tail_x[kLanes<Floats>] = {};
    std::memcpy(tail_own, own + i, count - i);
    std::memcpy(tail_peer, peer + i, count - i);
    std::memcpy(tail_x, x + i, (count - i) * sizeof(float));
    apply.step(tail_own, tail_peer, tail_x);
    std::memcpy(x + i, tail_x, (count - i) * sizeof(float));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(encode_loop);
HWY_EXPORT(pair_loop);
HWY_EXPORT(apply_loop);

ModuloEncoded modulo_encode(const float* x, size_t count, int exponent, std::byte* codes) {
  return HWY_DYNAMIC_DISPATCH(encode_loop)(x, count, exponent, codes);
}
ModuloPair modulo_pair(const std::byte* own, int own_shift, const std::byte* peer, int peer_shift, size_t count) {
  return HWY_DYNAMIC_DISPATCH(pair_loop)(own, own_shift, peer, peer_shift, count);
}
void modulo_apply(float factor, const std::byte* own, int own_shift, const std::byte* peer, int peer_shift,
                  size_t count, float* x) {
  HWY_DYNAMIC_DISPATCH(apply_loop)(factor, own, own_shift, peer, peer_shift, count, x);
}

}  // namespace starling
#endif  // HWY_ONCE
