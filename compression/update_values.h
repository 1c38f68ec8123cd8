// The value formats of update payloads: element after element, little-endian, all finite.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "compression/dense_format.h"
#include "kernels/cast.h"

namespace starling {

struct Fp32Values {
  static constexpr size_t kBytes = dense_format::kFp32Bytes;
  static constexpr float kRounding = 0;
  static constexpr auto kWrite = f32_to_bytes;
  static constexpr auto kAllFinite = all_finite_f32;

  static void read(const std::byte* bytes, size_t count, float* out) {
    if (count > 0) std::memcpy(out, bytes, count * kBytes);
  }
  static float read_one(const std::byte* bytes) {
    float value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
};

struct Bf16Values {
  static constexpr size_t kBytes = dense_format::kBf16Bytes;
  static constexpr float kRounding = 0x1p-8f;   // half a unit of the eighth bit
  static constexpr auto kWrite = f32_to_bf16;
  static constexpr auto kAllFinite = all_finite_bf16;

  static void read(const std::byte* bytes, size_t count, float* out) { bf16_to_f32(bytes, count, out); }
  static float read_one(const std::byte* bytes) {
    uint16_t upper;
    std::memcpy(&upper, bytes, sizeof upper);
    return std::bit_cast<float>(uint32_t{upper} << 16);
  }
};

// Values are decoded so many at a time: a few of these pieces fit the nearest cache.
inline constexpr size_t kUpdatePiece = 2048;

}  // namespace starling
