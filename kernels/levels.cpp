#include "kernels/levels.h"

#include <cstdint>
#include <cstring>
#include <span>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/levels.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/check.h"
#include "kernels/lanes-inl.h"
#include "kernels/level_chance.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

// Each loop runs over whole vectors of bytes, then byte by byte; kBits says how many elements a byte holds.
template <int kBits>
struct Groups {
  static constexpr size_t kBytes = 64;
  static constexpr size_t kSlots = 8 / kBits;
  static constexpr size_t kElements = kBytes * kSlots;

  // Calls step(d, at, byte, slots) with a vector's first element, its first byte, and how many of the slots are there.
  template <class Step>
  static HWY_INLINE void each(size_t count, const Step& step) {
    const hn::ScalableTag<float> d;
    const hn::CappedTag<float, 1> d1;
    const size_t whole = count / kElements;
    for (size_t group = 0; group < whole; ++group) {
      for (size_t j = 0; j < kBytes; j += hn::Lanes(d)) step(d, group * kElements + j, group * kBytes + j, kSlots);
    }
    const size_t rest = count % kElements;
    for (size_t j = 0; j < HWY_MIN(rest, kBytes); ++j) {
      step(d1, whole * kElements + j, whole * kBytes + j, (rest - j + kBytes - 1) / kBytes);
    }
  }
};

// level_hash() in every lane.
template <class DU>
HWY_INLINE hn::Vec<DU> hash(DU du, hn::Vec<DU> v) {
  v = hn::Mul(hn::Xor(v, hn::ShiftRight<16>(v)), hn::Set(du, kLevelHashFirst));
  v = hn::Mul(hn::Xor(v, hn::ShiftRight<15>(v)), hn::Set(du, kLevelHashSecond));
  return hn::Xor(v, hn::ShiftRight<16>(v));
}

template <class DU>
HWY_INLINE hn::Vec<DU> random_at(DU du, uint32_t key, size_t position) {
  return hash(du, hn::Iota(du, key + static_cast<uint32_t>(position)));
}

template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> sign_code(D d, hn::Vec<D> x, uint32_t key, size_t position) {
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(di, x);
  const auto positive = hn::Add(hn::BitCast(di, hn::ShiftRight<31>(hn::BitCast(du, bits))), hn::Set(di, -1));
  const auto code = hn::And(positive, hn::Set(di, 1));
  const auto zero = hn::Eq(x, hn::Zero(d));
  if (hn::AllFalse(d, zero)) return code;
  const auto chance = hn::BitCast(di, hn::ShiftRight<31>(random_at(du, key, position)));
  return hn::IfThenElse(hn::RebindMask(di, zero), chance, code);
}

// x * inverse in parts of 2^16 of a level, and as many more at random: what is whole then is the level. `scaled`: 2^16
// inverse. `chance`: 16 random bits.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> level_code(D d, hn::Vec<D> x, hn::Vec<D> scaled, int levels,
                                                     hn::Vec<hn::RebindToUnsigned<D>> chance) {
  const hn::RebindToSigned<D> di;
  const auto most = hn::Set(d, static_cast<float>(levels << 16));
  const auto parts = nearest_int(hn::Max(hn::Min(hn::Mul(x, scaled), most), hn::Neg(most)));
  const auto above_zero = hn::Add(hn::BitCast(di, chance), hn::Set(di, levels << 16));
  return hn::ShiftRight<16>(hn::Add(parts, above_zero));
}

template <int kBits>
struct Encoder {
  const float* x;
  float scaled;
  int levels;
  uint32_t key;
  size_t first;

  template <class D>
  HWY_INLINE hn::Vec<hn::RebindToSigned<D>> code(D d, size_t i, hn::Vec<hn::RebindToUnsigned<D>> chance) const {
    const auto v = load_next(d, x + i);
    if constexpr (kBits == 1) return sign_code(d, v, key, first + i);
    return level_code(d, v, hn::Set(d, scaled), levels, chance);
  }

  // A vector of bytes, and the one kLevelPair bytes further, whose elements share their random bits.
  template <class D>
  HWY_INLINE void pair(D d, size_t i, std::byte* out) const {
    const hn::RebindToSigned<D> di;
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint8_t, D> d8;
    auto lower = hn::Zero(di), upper = hn::Zero(di);
    STARLING_UNROLL for (size_t slot = 0; slot < Groups<kBits>::kSlots; ++slot) {
      const size_t at = i + slot * Groups<kBits>::kBytes;
      const auto chance = kBits == 1 ? hn::Zero(du) : random_at(du, key, first + at);
      const auto low = code(d, at, hn::And(chance, hn::Set(du, 0xFFFF)));
      const auto high = code(d, at + kLevelPair, hn::ShiftRight<16>(chance));
      lower = hn::Or(lower, hn::ShiftLeftSame(low, static_cast<int>(slot) * kBits));
      upper = hn::Or(upper, hn::ShiftLeftSame(high, static_cast<int>(slot) * kBits));
    }
    store_bytes(hn::U8FromU32(hn::BitCast(du, lower)), d8, out);
    store_bytes(hn::U8FromU32(hn::BitCast(du, upper)), d8, out + kLevelPair);
  }
};

template <int kBits>
void encode_loop(int levels, const float* x, size_t count, float inverse, uint32_t key, size_t first, std::byte* out) {
  using Layout = Groups<kBits>;
  const Encoder<kBits> encoder{x, inverse * 0x1p16f, levels, key, first};
  const hn::ScalableTag<float> d;
  static_assert(kLanes<decltype(d)> <= kLevelPair, "a vector lies in one half of a pair");
  const size_t whole = count / Layout::kElements;
  for (size_t group = 0; group < whole; ++group) {
    for (size_t j = 0; j < kLevelPair; j += hn::Lanes(d)) {
      encoder.pair(d, group * Layout::kElements + j, out + group * Layout::kBytes + j);
    }
  }
  const hn::CappedTag<float, 1> d1;
  const hn::RebindToUnsigned<decltype(d1)> du1;
  const size_t begin = whole * Layout::kElements;
  for (size_t j = 0; j < HWY_MIN(count - begin, Layout::kBytes); ++j) {
    int packed = 0, shift = 0;
    for (size_t i = begin + j; i < count; i += Layout::kBytes, shift += kBits) {
      const auto chance = hn::Set(du1, kBits == 1 ? 0 : level_share(key, first, i));
      packed |= hn::GetLane(encoder.code(d1, i, chance)) << shift;
    }
    out[whole * Layout::kBytes + j] = static_cast<std::byte>(packed);
  }
}

// The levels of one slot, as floats, of bytes that were widened to int32.
template <int kBits, class D>
HWY_INLINE hn::Vec<D> level_in(D d, hn::Vec<hn::RebindToSigned<D>> packed, size_t slot, int levels) {
  const hn::RebindToSigned<D> di;
  auto code = packed;
  if constexpr (kBits < 8) {
    code = hn::And(hn::ShiftRightSame(packed, static_cast<int>(slot) * kBits), hn::Set(di, (1 << kBits) - 1));
  }
  const auto level = kBits == 1 ? hn::Sub(hn::Add(code, code), hn::Set(di, 1)) : hn::Sub(code, hn::Set(di, levels));
  return hn::ConvertTo(d, level);
}

// Calls use(d, i, levels of the elements from i on) for every slot.
template <int kBits, class Use>
HWY_INLINE void each_level(int levels, const std::byte* bytes, size_t count, const Use& use) {
  Groups<kBits>::each(count, [&](auto d, size_t at, size_t byte, size_t slots) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<uint8_t, decltype(d)> d8;
    const auto packed = hn::PromoteTo(di, load_bytes(d8, bytes + byte));
    for (size_t slot = 0; slot < slots; ++slot) {
      use(d, at + slot * Groups<kBits>::kBytes, level_in<kBits>(d, packed, slot, levels));
    }
  });
}

template <int kBits>
void decode_loop(int levels, const std::byte* bytes, size_t count, float scale, float* out) {
  each_level<kBits>(levels, bytes, count, [&](auto d, size_t i, auto level) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::Set(d, scale), level), d, out + i);
  });
}

template <int kBits>
void axpy_loop(int levels, float a, const std::byte* bytes, size_t count, float scale, float* y) {
  each_level<kBits>(levels, bytes, count, [&](auto d, size_t i, auto level) HWY_ATTR {
    const auto value = hn::Mul(hn::Set(d, scale), level);
    hn::StoreU(hn::Add(load_next(d, y + i), hn::Mul(hn::Set(d, a), value)), d, y + i);
  });
}

// weight * (scale * level) of one slot. With one bit both products are the same size: its sign alone is the level's.
template <int kBits, class D>
HWY_INLINE hn::Vec<D> product_in(D d, hn::Vec<hn::RebindToSigned<D>> packed, size_t slot, int levels, float scale,
                                 float weight) {
  if constexpr (kBits == 1) {
    const hn::RebindToSigned<D> di;
    const auto sign = hn::AndNot(hn::ShiftLeftSame(packed, 31 - static_cast<int>(slot)), hn::Set(di, INT32_MIN));
    return hn::Xor(hn::Set(d, weight * scale), hn::BitCast(d, sign));
  } else {
    return hn::Mul(hn::Set(d, weight), hn::Mul(hn::Set(d, scale), level_in<kBits>(d, packed, slot, levels)));
  }
}

// Adds what kTerms payloads say of the elements of a block, one after the other, while their sum is in a register.
template <int kBits, size_t kTerms>
HWY_INLINE void merge_block(int levels, const LevelTerm* terms, size_t b, size_t bytes, size_t count, float* y) {
  float scales[kTerms];
  STARLING_UNROLL for (size_t t = 0; t < kTerms; ++t) {
    std::memcpy(&scales[t], terms[t].scales + b * sizeof(float), sizeof(float));
  }
  Groups<kBits>::each(count, [&](auto d, size_t at, size_t byte, size_t slots) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<uint8_t, decltype(d)> d8;
    hn::Vec<decltype(di)> packed[kTerms];
    STARLING_UNROLL for (size_t t = 0; t < kTerms; ++t) {
      packed[t] = hn::PromoteTo(di, load_bytes(d8, terms[t].codes + b * bytes + byte));
    }
    for (size_t slot = 0; slot < slots; ++slot) {
      float* const to = y + at + slot * Groups<kBits>::kBytes;
      auto sum = hn::LoadU(d, to);
      STARLING_UNROLL for (size_t t = 0; t < kTerms; ++t) {
        sum = hn::Add(sum, product_in<kBits>(d, packed[t], slot, levels, scales[t], terms[t].weight));
      }
      hn::StoreU(sum, d, to);
    }
  });
}

template <int kBits, size_t kTerms>
void merge_terms(const LevelCodes& codes, size_t block, const LevelTerm* terms, float* y, size_t count) {
  const size_t bytes = codes.bytes(block);
  for (size_t at = 0, b = 0; at < count; at += block, ++b) {
    merge_block<kBits, kTerms>(codes.levels, terms, b, bytes, HWY_MIN(block, count - at), y + at);
  }
}

// A piece of the sum stays in the nearest cache until all terms have been added to it, however many they are.
constexpr size_t kTogether = 4, kMergePiece = 2048;

template <int kBits>
void merge_loop(const LevelCodes& codes, size_t block, std::span<const LevelTerm> terms, float* out, size_t count) {
  const size_t blocks = HWY_MAX(kMergePiece / block, size_t{1}), piece = blocks * block;
  LevelTerm some[kTogether];
  for (size_t at = 0, b = 0; at < count; at += piece, b += blocks) {
    const size_t length = HWY_MIN(piece, count - at);
    std::memset(out + at, 0, length * sizeof(float));
    for (size_t t = 0; t < terms.size(); t += kTogether) {
      const size_t together = HWY_MIN(kTogether, terms.size() - t);
      for (size_t i = 0; i < together; ++i) {
        const LevelTerm& term = terms[t + i];
        some[i] = {term.weight, term.scales + b * sizeof(float), term.codes + b * codes.bytes(block)};
      }
      switch (together) {
        case 1: merge_terms<kBits, 1>(codes, block, some, out + at, length); break;
        case 2: merge_terms<kBits, 2>(codes, block, some, out + at, length); break;
        case 3: merge_terms<kBits, 3>(codes, block, some, out + at, length); break;
        default: merge_terms<kBits, kTogether>(codes, block, some, out + at, length); break;
      }
    }
  }
}

// Whole groups a vector of bytes at a time: no slot's code may be above 2 L, as one bit never is. Then byte by byte.
template <int kBits>
bool valid_loop(int levels, const std::byte* bytes, size_t count) {
  constexpr auto kMask = static_cast<uint8_t>((1 << kBits) - 1);
  using Layout = Groups<kBits>;
  const size_t whole = count / Layout::kElements * Layout::kBytes;
  const hn::CappedTag<uint8_t, Layout::kBytes> d;
  auto largest = hn::Zero(d);
  for (size_t at = 0; kBits > 1 && at < whole; at += hn::Lanes(d)) {
    const auto packed = hn::LoadU(d, reinterpret_cast<const uint8_t*>(bytes) + at);
    STARLING_UNROLL for (size_t slot = 0; slot < Layout::kSlots; ++slot) {
      const auto code = hn::And(hn::ShiftRightSame(packed, static_cast<int>(slot) * kBits), hn::Set(d, kMask));
      largest = hn::Max(largest, code);
    }
  }
  const int most = kBits == 1 ? 1 : 2 * levels;
  const auto limit = hn::Set(d, static_cast<uint8_t>(most));
  bool good = hn::AllTrue(d, hn::Eq(hn::Max(largest, limit), limit));
  const size_t rest = count % Layout::kElements;
  for (size_t j = 0; j < HWY_MIN(rest, Layout::kBytes); ++j) {
    auto packed = std::to_integer<int>(bytes[whole + j]);
    for (size_t i = j; i < rest; i += Layout::kBytes, packed >>= kBits) good &= (packed & kMask) <= most;
    good &= packed == 0;  // where no element is
  }
  return good;
}

// Adds sixteen values, or the next of them, to the sums: those of a vector, from value `first` of a group on.
template <class D>
HWY_INLINE void add_squares(D d, size_t first, hn::Vec<D> values, SquareSums* sums) {
#if HWY_TARGET == HWY_SCALAR
  (void)d;
  sums->add(first, values);
#else
  const size_t step = first / SquareSums::kStep;
  sums->add(step, hn::LowerHalf(hn::Half<D>(), values));
  sums->add(step + 1, hn::UpperHalf(hn::Half<D>(), values));
#endif
}

template <int kBits>
double squares_loop(int levels, const std::byte* bytes, size_t count, size_t block, const std::byte* scales) {
  using Layout = Groups<kBits>;
  const hn::CappedTag<float, SquareSums::kGroup> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const hn::RebindToSigned<decltype(d)> di;
  SquareSums sums;
  for (size_t at = 0; at < count; at += block, scales += sizeof(float)) {
    float scale;
    std::memcpy(&scale, scales, sizeof scale);
    const size_t length = HWY_MIN(block, count - at), whole = length / Layout::kElements;
    for (size_t group = 0; group < whole; ++group, bytes += Layout::kBytes) {
      STARLING_UNROLL for (size_t slot = 0; slot < Layout::kSlots; ++slot) {
        for (size_t j = 0; j < Layout::kBytes; j += SquareSums::kGroup) {
          STARLING_UNROLL for (size_t v = 0; v < SquareSums::kGroup; v += kLanes<decltype(d)>) {
            const auto packed = hn::PromoteTo(di, load_bytes(d8, bytes + j + v));
            add_squares(d, v, hn::Mul(hn::Set(d, scale), level_in<kBits>(d, packed, slot, levels)), &sums);
          }
        }
      }
    }
    const size_t rest = length % Layout::kElements;
    if (rest == 0) continue;
    float values[Layout::kElements + SquareSums::kGroup] = {};
    decode_loop<kBits>(levels, bytes, rest, scale, values);
    for (size_t i = 0; i < rest; i += SquareSums::kGroup) {
      STARLING_UNROLL for (size_t v = 0; v < SquareSums::kGroup; v += kLanes<decltype(d)>) {
        add_squares(d, v, hn::LoadU(d, values + i + v), &sums);
      }
    }
  }
  return sums.total();
}

// With one bit every element is the scale or its negative: each of the sixteen sums grows by the same square.
template <>
double squares_loop<1>(int, const std::byte*, size_t count, size_t block, const std::byte* scales) {
  double strand = 0, square = 0;
  for (size_t at = 0; at < count; at += block, scales += sizeof(float)) {
    float scale;
    std::memcpy(&scale, scales, sizeof scale);
    square = static_cast<double>(scale) * static_cast<double>(scale);
    for (size_t i = SquareSums::kGroup; i <= HWY_MIN(block, count - at); i += SquareSums::kGroup) strand += square;
  }
  double total = 0;  // of the last sixteen some may be missing
  for (size_t s = 0; s < SquareSums::kGroup; ++s) total += s < count % SquareSums::kGroup ? strand + square : strand;
  return total;
}

// The loop for so many bits, as a plain function of the instruction set that is chosen at run time.
void levels_encode_any(const LevelCodes& codes, const float* x, size_t count, float inverse, uint32_t key, size_t first,
                       std::byte* out) {
  switch (codes.bits) {
    case 1: return encode_loop<1>(codes.levels, x, count, inverse, key, first, out);
    case 2: return encode_loop<2>(codes.levels, x, count, inverse, key, first, out);
    case 4: return encode_loop<4>(codes.levels, x, count, inverse, key, first, out);
    default: return encode_loop<8>(codes.levels, x, count, inverse, key, first, out);
  }
}

void levels_decode_any(const LevelCodes& codes, const std::byte* bytes, size_t count, float scale, float* out) {
  switch (codes.bits) {
    case 1: return decode_loop<1>(codes.levels, bytes, count, scale, out);
    case 2: return decode_loop<2>(codes.levels, bytes, count, scale, out);
    case 4: return decode_loop<4>(codes.levels, bytes, count, scale, out);
    default: return decode_loop<8>(codes.levels, bytes, count, scale, out);
  }
}

void levels_axpy_any(const LevelCodes& codes, float a, const std::byte* bytes, size_t count, float scale, float* y) {
  switch (codes.bits) {
    case 1: return axpy_loop<1>(codes.levels, a, bytes, count, scale, y);
    case 2: return axpy_loop<2>(codes.levels, a, bytes, count, scale, y);
    case 4: return axpy_loop<4>(codes.levels, a, bytes, count, scale, y);
    default: return axpy_loop<8>(codes.levels, a, bytes, count, scale, y);
  }
}

void levels_merge_any(const LevelCodes& codes, size_t block, std::span<const LevelTerm> terms, float* out,
                      size_t count) {
  switch (codes.bits) {
    case 1: return merge_loop<1>(codes, block, terms, out, count);
    case 2: return merge_loop<2>(codes, block, terms, out, count);
    case 4: return merge_loop<4>(codes, block, terms, out, count);
    default: return merge_loop<8>(codes, block, terms, out, count);
  }
}

bool levels_valid_any(const LevelCodes& codes, const std::byte* bytes, size_t count) {
  switch (codes.bits) {
    case 1: return valid_loop<1>(codes.levels, bytes, count);
    case 2: return valid_loop<2>(codes.levels, bytes, count);
    case 4: return valid_loop<4>(codes.levels, bytes, count);
    default: return valid_loop<8>(codes.levels, bytes, count);
  }
}

double levels_squares_any(const LevelCodes& codes, const std::byte* bytes, size_t count, size_t block,
                          const std::byte* scales) {
  switch (codes.bits) {
    case 1: return squares_loop<1>(codes.levels, bytes, count, block, scales);
    case 2: return squares_loop<2>(codes.levels, bytes, count, block, scales);
    case 4: return squares_loop<4>(codes.levels, bytes, count, block, scales);
    default: return squares_loop<8>(codes.levels, bytes, count, block, scales);
  }
}

void take_signs_loop(float size, float* x, size_t count) {
  const auto step = [&](auto d, size_t i) HWY_ATTR {
    const auto v = load_next(d, x + i);
    const auto some = hn::Gt(hn::Abs(v), hn::Zero(d));
    hn::StoreU(hn::IfThenElseZero(some, hn::CopySign(hn::Set(d, size), v)), d, x + i);
  };
  for_each_vector<float>(count, step);
}

double sum_abs_loop(const float* x, size_t count) {
  SquareSums sums;
  const SquareSums::Narrow d;
  float tail[SquareSums::kGroup] = {};
  for (size_t i = 0; i < count; i += SquareSums::kGroup) {
    const float* from = x + i;
    if (count - i < SquareSums::kGroup) {
      std::memcpy(tail, from, (count - i) * sizeof(float));
      from = tail;
    }
    STARLING_UNROLL for (size_t v = 0; v < SquareSums::kSteps; ++v) {
      sums.add_magnitude(v, load_next(d, from + v * SquareSums::kStep));
    }
  }
  return sums.total();
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(levels_encode_any);
HWY_EXPORT(levels_decode_any);
HWY_EXPORT(levels_axpy_any);
HWY_EXPORT(levels_merge_any);
HWY_EXPORT(levels_valid_any);
HWY_EXPORT(levels_squares_any);
HWY_EXPORT(take_signs_loop);
HWY_EXPORT(sum_abs_loop);

void levels_encode(const LevelCodes& codes, const float* x, size_t count, float inverse, uint64_t rng_seed,
                   size_t first, std::byte* out) {
  STARLING_CHECK(2 * codes.levels < 1 << codes.bits || codes.bits == 1);
  HWY_DYNAMIC_DISPATCH(levels_encode_any)(codes, x, count, inverse, level_key(rng_seed), first, out);
}
void levels_decode(const LevelCodes& codes, const std::byte* bytes, size_t count, float scale, float* out) {
  HWY_DYNAMIC_DISPATCH(levels_decode_any)(codes, bytes, count, scale, out);
}
void levels_axpy(const LevelCodes& codes, float a, const std::byte* bytes, size_t count, float scale, float* y) {
  HWY_DYNAMIC_DISPATCH(levels_axpy_any)(codes, a, bytes, count, scale, y);
}
void levels_merge(const LevelCodes& codes, size_t block, std::span<const LevelTerm> terms, float* out, size_t count) {
  STARLING_CHECK(block > 0 && (count <= block || block % codes.group_elements() == 0));
  HWY_DYNAMIC_DISPATCH(levels_merge_any)(codes, block, terms, out, count);
}
bool levels_valid(const LevelCodes& codes, const std::byte* bytes, size_t count) {
  return HWY_DYNAMIC_DISPATCH(levels_valid_any)(codes, bytes, count);
}
double levels_squared_norm(const LevelCodes& codes, const std::byte* bytes, size_t count, size_t block,
                           const std::byte* scales) {
  STARLING_CHECK(block > 0 && (count <= block || block % codes.group_elements() == 0));
  return HWY_DYNAMIC_DISPATCH(levels_squares_any)(codes, bytes, count, block, scales);
}
void take_signs(float size, float* x, size_t count) { HWY_DYNAMIC_DISPATCH(take_signs_loop)(size, x, count); }
double sum_abs(const float* x, size_t count) { return HWY_DYNAMIC_DISPATCH(sum_abs_loop)(x, count); }

}  // namespace starling
#endif  // HWY_ONCE
