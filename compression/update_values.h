// The value formats of sparse update payloads, and of dense ones: element after element, little-endian, all finite.
// A format reads and writes elements `first` to first + count - 1 of `total` values that begin at `values`.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "compression/dense_format.h"
#include "kernels/cast.h"
#include "kernels/levels.h"
#include "kernels/vector_ops.h"

namespace starling {

// Values are decoded so many at a time: a few of these pieces fit the nearest cache.
inline constexpr size_t kUpdatePiece = 2048;

inline constexpr float kUpdateScaleMax = 0x1p120f;   // of levels: 127 times it is a float
inline constexpr float kUpdateScaleMin = 0x1p-100f;  // below it 1 / scale would not be a float: such a scale is 0

struct Fp32Values {
  static constexpr size_t kBytes = dense_format::kFp32Bytes;
  static constexpr bool kIsBf16 = false;
  static constexpr float kRounding = 0, kRoundingOfLargest = 0;
  static constexpr auto kWrite = f32_to_bytes;
  static constexpr auto kAllFinite = all_finite_f32;

  static void read(const std::byte* bytes, size_t count, float* out) {
    if (count > 0) std::memcpy(out, bytes, count * kBytes);
  }
  // The values where they lie, if a float may lie there; else a copy of them in `buffer`.
  static const float* view(const std::byte* bytes, size_t count, float* buffer) {
    if (reinterpret_cast<uintptr_t>(bytes) % alignof(float) == 0) return reinterpret_cast<const float*>(bytes);
    read(bytes, count, buffer);
    return buffer;
  }
  static float read_one(const std::byte* bytes) {
    float value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
};

struct Bf16Values {
  static constexpr size_t kBytes = dense_format::kBf16Bytes;
  static constexpr bool kIsBf16 = true;
  static constexpr float kRounding = 0x1p-8f;  // half a unit of the eighth bit
  static constexpr float kRoundingOfLargest = 0;
  static constexpr auto kWrite = f32_to_bf16;
  static constexpr auto kAllFinite = all_finite_bf16;

  static void read(const std::byte* bytes, size_t count, float* out) { bf16_to_f32(bytes, count, out); }
  static const float* view(const std::byte* bytes, size_t count, float* buffer) {
    read(bytes, count, buffer);
    return buffer;
  }
  static float read_one(const std::byte* bytes) {
    uint16_t upper;
    std::memcpy(&upper, bytes, sizeof upper);
    return std::bit_cast<float>(uint32_t{upper} << 16);
  }
};

// Values of one size each, as a format of sparse payloads.
template <class Each>
struct PlainValues {
  static constexpr float kRounding = Each::kRounding, kRoundingOfLargest = Each::kRoundingOfLargest;
  static size_t bytes(size_t total) { return total * Each::kBytes; }
  static bool write(std::byte* values, size_t, size_t first, const float* x, size_t count, uint64_t) {
    return Each::kWrite(x, count, values + first * Each::kBytes);
  }
  static bool valid(const std::byte* values, size_t total) { return Each::kAllFinite(values, total); }
  static void read(const std::byte* values, size_t, size_t first, size_t count, float* out) {
    Each::read(values + first * Each::kBytes, count, out);
  }
  static float read_one(const std::byte* values, size_t, size_t i) { return Each::read_one(values + i * Each::kBytes); }
};

// Int8 with a scale for each 512 values, as the codec int8 has them: the scales first, then a byte for each value.
struct Int8Values {
  static constexpr float kRounding = 0, kRoundingOfLargest = 1 / 127.0f;
  static constexpr size_t kBlock = 512;
  static_assert(kUpdatePiece % kBlock == 0, "pieces are written block by block");
  static constexpr LevelCodes kCodes{8, 127};

  static size_t scale_bytes(size_t total) { return (total + kBlock - 1) / kBlock * sizeof(float); }
  static size_t bytes(size_t total) { return scale_bytes(total) + total; }
  static float scale_of(const std::byte* values, size_t block) {
    float scale;
    std::memcpy(&scale, values + block * sizeof scale, sizeof scale);
    return scale;
  }

  // REQUIRES: first is a multiple of kUpdatePiece; x is finite.
  static bool write(std::byte* values, size_t total, size_t first, const float* x, size_t count, uint64_t rng_seed) {
    for (size_t at = 0; at < count; at += kBlock) {
      const size_t length = std::min(kBlock, count - at), i = first + at;
      const float wanted = std::min(max_abs(x + at, length) / 127, kUpdateScaleMax);
      const float scale = wanted < kUpdateScaleMin ? 0 : wanted;
      std::memcpy(values + i / kBlock * sizeof scale, &scale, sizeof scale);
      levels_encode(kCodes, x + at, length, scale > 0 ? 1 / scale : 0, rng_seed, i, values + scale_bytes(total) + i);
    }
    return true;
  }
  static bool valid(const std::byte* values, size_t total) {
    for (size_t block = 0; block * kBlock < total; ++block) {
      const float scale = scale_of(values, block);
      if (!(scale <= kUpdateScaleMax) || std::signbit(scale)) return false;  // a NaN too
    }
    return levels_valid(kCodes, values + scale_bytes(total), total);
  }
  static void read(const std::byte* values, size_t total, size_t first, size_t count, float* out) {
    for (size_t at = 0; at < count;) {
      const size_t i = first + at, length = std::min(count - at, kBlock - i % kBlock);
      levels_decode(kCodes, values + scale_bytes(total) + i, length, scale_of(values, i / kBlock), out + at);
      at += length;
    }
  }
  // Of a sum of values (levels_merge).
  static LevelTerm term(float weight, const std::byte* values, size_t total) {
    return {weight, values, values + scale_bytes(total)};
  }
  static float read_one(const std::byte* values, size_t total, size_t i) {
    return scale_of(values, i / kBlock) * static_cast<float>(level_of(kCodes, values + scale_bytes(total), i));
  }
};

}  // namespace starling
