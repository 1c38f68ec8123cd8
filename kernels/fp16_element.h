// What one element means in the codec fp16: IEEE binary16, for host and device alike. In integers, so that no flag of
// the processor (flushed denormals, another rounding) can change a bit.
#pragma once

#include <bit>
#include <cstdint>

namespace starling {

inline constexpr uint32_t kFp16Largest = 0x7BFF;  // 65504
inline constexpr uint32_t kFp16Infinity = 0x7C00;
inline constexpr uint32_t kFp16Rebias = 0x38000000;  // 127 - 15, as the exponent of a float
inline constexpr uint32_t kFp16Normal = 0x38800000;  // the float bits of 2^-14; smaller ones are denormal as binary16
inline constexpr uint32_t kFp16Half = 0x33000000;    // of 2^-25, half of the smallest binary16

// Rounds the float of these bits half to even. A finite value too large for binary16 becomes the largest one, never an
// infinity; a NaN stays a NaN.
constexpr uint16_t fp16_of(uint32_t float_bits) {
  const uint32_t magnitude = float_bits & 0x7FFFFFFFu, sign = float_bits >> 16 & 0x8000u;
  if (magnitude > 0x7F7FFFFFu) {
    return static_cast<uint16_t>(sign | kFp16Infinity | (magnitude > 0x7F800000u ? 0x200u : 0u));
  }
  if (magnitude >= kFp16Normal) {
    const uint32_t rounded = (magnitude - kFp16Rebias + 0xFFFu + (magnitude >> 13 & 1u)) >> 13;
    return static_cast<uint16_t>(sign | (rounded < kFp16Largest ? rounded : kFp16Largest));
  }
  if (magnitude <= kFp16Half) return static_cast<uint16_t>(sign);
  const uint32_t mantissa = (magnitude & 0x7FFFFFu) | 0x800000u, shift = 126 - (magnitude >> 23);  // 14..24
  const uint32_t rounded = (mantissa + (1u << (shift - 1)) - 1u + (mantissa >> shift & 1u)) >> shift;
  return static_cast<uint16_t>(sign | rounded);
}

// The float bits of a binary16; every one has an exact float.
constexpr uint32_t fp16_to_float_bits(uint16_t half) {
  const uint32_t magnitude = half & 0x7FFFu, sign = (half & 0x8000u) << 16;
  if (magnitude >= 0x400u) {  // an infinity and a NaN go up once more
    return sign | ((magnitude << 13) + (magnitude >= kFp16Infinity ? 2 * kFp16Rebias : kFp16Rebias));
  }
  if (magnitude == 0) return sign;
  const auto up = static_cast<uint32_t>(std::countl_zero(magnitude)) - 21;  // brings the leading bit to 10, for 2^-14
  return sign | (113 - up) << 23 | ((magnitude << up) & 0x3FFu) << 13;
}

}  // namespace starling
