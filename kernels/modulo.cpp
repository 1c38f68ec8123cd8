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
#include "kernels/modulo-inl.h"

#ifndef STARLING_MODULO_TABLES
#define STARLING_MODULO_TABLES
namespace starling {

// The column weights as two signed halves: weight = 65536 * high + low mod 2^32. Differences of codes fit in 16 bits,
// so the halves meet them in the multiply-add-pairs instruction.
struct ModuloTables {
  alignas(64) std::array<int16_t, kModuloRow> low{};
  alignas(64) std::array<int16_t, kModuloRow> high{};
};

constexpr ModuloTables make_modulo_tables() {
  ModuloTables tables;
  for (uint32_t i = 0; i < kModuloRow; ++i) {
    const uint32_t weight = modulo_column_weight(i);
    const int16_t low = static_cast<int16_t>(weight & 0xFFFFu);
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

// Sign-extends the lowest bits of each lane; the tie becomes 0.
template <int kBits, class D>
HWY_INLINE hn::Vec<D> wrap(D d, hn::Vec<D> v) {
  constexpr int kRest = 8 * sizeof(hn::TFromD<D>) - kBits;
  const auto wrapped = hn::ShiftRight<kRest>(hn::ShiftLeft<kRest>(v));
  return hn::IfThenZeroElse(hn::Eq(wrapped, hn::Set(d, static_cast<hn::TFromD<D>>(-(1 << (kBits - 1))))), wrapped);
}

// The differences of codes, with their shifts.
template <int kBits, class D>
HWY_INLINE hn::Vec<D> difference(D d, hn::Vec<D> own, int own_shift, hn::Vec<D> peer, int peer_shift) {
  return wrap<kBits>(d, hn::Sub(hn::ShiftLeftSame(peer, peer_shift), hn::ShiftLeftSame(own, own_shift)));
}

struct PairRow {
  int own_shift;
  int peer_shift;
  hn::Vec<Shorts> largest = hn::Zero(Shorts());
  hn::Vec<Pairs> low = hn::Zero(Pairs());
  hn::Vec<Pairs> high = hn::Zero(Pairs());
  hn::Vec<Pairs> squares = hn::Zero(Pairs());

  HWY_INLINE void add(hn::Vec<Shorts> d, size_t column) {
    largest = hn::Max(largest, hn::Abs(d));
    low = add_products(Pairs(), d, hn::LoadU(Shorts(), kModuloTables.low.data() + column), low);
    high = add_products(Pairs(), d, hn::LoadU(Shorts(), kModuloTables.high.data() + column), high);
    squares = add_products(Pairs(), d, d, squares);
  }
  template <int kBits>
  HWY_INLINE void step(const std::byte* own, const std::byte* peer, size_t column, size_t half) {
    const auto a = load_codes(Shorts(), own), b = load_codes(Shorts(), peer);
    add(difference<kBits>(Shorts(), a, own_shift, b, peer_shift), column);  // wraps away what lies above 4 bits
    if constexpr (kBits == 4) {
      const auto upper_a = hn::ShiftRight<4>(a), upper_b = hn::ShiftRight<4>(b);
      add(difference<kBits>(Shorts(), upper_a, own_shift, upper_b, peer_shift), half + column);
    }
  }
};

template <int kBits>
HWY_INLINE ModuloPair pair(const std::byte* own, int own_shift, const std::byte* peer, int peer_shift, size_t count) {
  const size_t lanes = hn::Lanes(Shorts());
  PairRow row{own_shift, peer_shift};
  ModuloPair result;
  for (size_t start = 0; start < count; start += kModuloRow) {
    const size_t bytes = modulo_code_bytes<kBits>(std::min(kModuloRow, count - start));
    size_t i = 0;
    for (; i + lanes <= bytes; i += lanes) row.step<kBits>(own + i, peer + i, i, bytes);
    if (i < bytes) {
      std::byte tail_own[kLanes<Shorts>], tail_peer[kLanes<Shorts>];
      padded(tail_own, own + i, bytes - i);
      padded(tail_peer, peer + i, bytes - i);
      row.step<kBits>(tail_own, tail_peer, i, bytes);
    }
    const uint32_t sum = sum_lanes(Pairs(), row.low) + (sum_lanes(Pairs(), row.high) << 16);
    result.projection += modulo_row_weight(static_cast<uint32_t>(start / kModuloRow)) * sum;
    result.sum_squares += sum_lanes(Pairs(), row.squares);  // one row's squares fit: 4096 * 127^2 < 2^31
    row.low = row.high = row.squares = hn::Zero(Pairs());
    own += bytes;
    peer += bytes;
  }
  result.max_abs = static_cast<uint32_t>(max_lane(Shorts(), row.largest));
  return result;
}

struct ApplyVector {
  hn::Vec<Floats> factor;
  int own_shift;
  int peer_shift;

  template <int kBits>
  HWY_INLINE void add(hn::Vec<Ints> own, hn::Vec<Ints> peer, float* x) const {
    const auto delta =
        hn::Mul(factor, hn::ConvertTo(Floats(), difference<kBits>(Ints(), own, own_shift, peer, peer_shift)));
    hn::StoreU(hn::Add(load_next(Floats(), x), delta), Floats(), x);
  }
  template <int kBits>
  HWY_INLINE void step(const std::byte* own, const std::byte* peer, float* x, float* upper) const {
    const auto a = load_codes(Ints(), own), b = load_codes(Ints(), peer);
    add<kBits>(a, b, x);
    if constexpr (kBits == 4) add<kBits>(hn::ShiftRight<4>(a), hn::ShiftRight<4>(b), upper);
  }
};

template <int kBits>
HWY_INLINE void apply(float factor, const std::byte* own, int own_shift, const std::byte* peer, int peer_shift,
                      size_t count, float* x) {
  const size_t lanes = hn::Lanes(Floats());
  const ApplyVector vectors{hn::Set(Floats(), factor), own_shift, peer_shift};
  for (size_t start = 0; start < count; start += kModuloRow) {
    const size_t elements = std::min(kModuloRow, count - start), bytes = modulo_code_bytes<kBits>(elements);
    const size_t half = kBits == 8 ? 0 : bytes, upper_end = elements - bytes;  // elements in the upper halves
    size_t i = 0;
    for (; i + lanes <= (kBits == 8 ? bytes : upper_end); i += lanes) {
      vectors.step<kBits>(own + i, peer + i, x + i, x + half + i);
    }
    for (; i < bytes; i += lanes) {
      const size_t low_count = std::min(lanes, bytes - i);
      const size_t high_count = upper_end > i ? std::min(lanes, upper_end - i) : 0;
      std::byte tail_own[kLanes<Floats>], tail_peer[kLanes<Floats>];
      float low[kLanes<Floats>], high[kLanes<Floats>];
      padded(tail_own, own + i, low_count);
      padded(tail_peer, peer + i, low_count);
      padded(low, x + i, low_count);
      padded(high, x + (high_count > 0 ? half + i : 0), high_count);
      vectors.step<kBits>(tail_own, tail_peer, low, high);
      std::memcpy(x + i, low, low_count * sizeof(float));
      if (high_count > 0) std::memcpy(x + half + i, high, high_count * sizeof(float));
    }
    own += bytes;
    peer += bytes;
    x += elements;
  }
}

ModuloPair pair_8(const std::byte* own, int own_shift, const std::byte* peer, int peer_shift, size_t count) {
  return pair<8>(own, own_shift, peer, peer_shift, count);
}
ModuloPair pair_4(const std::byte* own, int own_shift, const std::byte* peer, int peer_shift, size_t count) {
  return pair<4>(own, own_shift, peer, peer_shift, count);
}
void apply_8(float factor, const std::byte* own, int own_shift, const std::byte* peer, int peer_shift, size_t count,
             float* x) {
  apply<8>(factor, own, own_shift, peer, peer_shift, count, x);
}
void apply_4(float factor, const std::byte* own, int own_shift, const std::byte* peer, int peer_shift, size_t count,
             float* x) {
  apply<4>(factor, own, own_shift, peer, peer_shift, count, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(pair_8);
HWY_EXPORT(pair_4);
HWY_EXPORT(apply_8);
HWY_EXPORT(apply_4);

template <>
ModuloPair modulo_pair<8>(const std::byte* own, int own_shift, const std::byte* peer, int peer_shift, size_t count) {
  return HWY_DYNAMIC_DISPATCH(pair_8)(own, own_shift, peer, peer_shift, count);
}
template <>
ModuloPair modulo_pair<4>(const std::byte* own, int own_shift, const std::byte* peer, int peer_shift, size_t count) {
  return HWY_DYNAMIC_DISPATCH(pair_4)(own, own_shift, peer, peer_shift, count);
}
template <>
void modulo_apply<8>(float factor, const std::byte* own, int own_shift, const std::byte* peer, int peer_shift,
                     size_t count, float* x) {
  HWY_DYNAMIC_DISPATCH(apply_8)(factor, own, own_shift, peer, peer_shift, count, x);
}
template <>
void modulo_apply<4>(float factor, const std::byte* own, int own_shift, const std::byte* peer, int peer_shift,
                     size_t count, float* x) {
  HWY_DYNAMIC_DISPATCH(apply_4)(factor, own, own_shift, peer, peer_shift, count, x);
}

}  // namespace starling
#endif  // HWY_ONCE
