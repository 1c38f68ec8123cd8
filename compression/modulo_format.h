// The payload of modulo8 and modulo4, little-endian:
//   byte 0      int8   exponent e of the step 2^e the sender chose for this snapshot, -100..100
//   bytes 1-3          zero
//   bytes 4-7   uint32 projection: sum r_i * q_i mod 2^32 (weights r_i: kernels/modulo_element.h)
//   then        codes: q_i mod 256, a byte each, or q_i mod 16, two in a byte (which two: kernels/modulo_element.h);
//               q_i = x_i * 2^-e rounded half to even, |q_i| <= 2^30
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/modulo_element.h"

namespace starling::modulo_format {

inline constexpr size_t kHeaderBytes = 8;
inline constexpr size_t kZeroBytesAt = 1;
inline constexpr size_t kZeroByteCount = 3;
inline constexpr size_t kProjectionAt = 4;
inline constexpr int kMinExponent = -100;
inline constexpr int kMaxExponent = 100;
inline constexpr int kQuantisedBits = 30;  // |q_i| <= 2^30: fits an int32 with room for the difference of two

static_assert(std::endian::native == std::endian::little, "the projection is copied, not converted");
static_assert(kZeroBytesAt + kZeroByteCount == kProjectionAt && kProjectionAt + sizeof(uint32_t) == kHeaderBytes);
static_assert(127 - kQuantisedBits + 1 <= kMaxExponent, "every finite float has a legal exponent");

template <int kBits>
constexpr size_t payload_bytes(size_t element_count) {
  return kHeaderBytes + modulo_code_bytes<kBits>(element_count);
}

struct Header {
  int exponent = 0;
  uint32_t projection = 0;
};

// REQUIRES: payload.size() >= kHeaderBytes, here and below.
inline Header read_header(std::span<const std::byte> payload) {
  Header header;
  header.exponent = static_cast<int8_t>(payload[0]);
  std::memcpy(&header.projection, payload.data() + kProjectionAt, sizeof(header.projection));
  return header;
}

inline bool header_is_legal(std::span<const std::byte> payload) {
  const int exponent = static_cast<int8_t>(payload[0]);
  if (exponent < kMinExponent || exponent > kMaxExponent) return false;
  for (size_t i = 0; i < kZeroByteCount; ++i) {
    if (payload[kZeroBytesAt + i] != std::byte{0}) return false;
  }
  return true;
}

// Of codes of 4 bits: the upper half of a byte that stands for one element only is zero.
template <int kBits>
bool codes_are_legal(std::span<const std::byte> payload, size_t element_count) {
  return kBits == 8 || element_count % 2 == 0 || (payload.back() >> 4) == std::byte{0};
}

inline void write_header(const Header& header, std::span<std::byte> payload) {
  std::memset(payload.data(), 0, kHeaderBytes);
  payload[0] = static_cast<std::byte>(static_cast<int8_t>(header.exponent));
  std::memcpy(payload.data() + kProjectionAt, &header.projection, sizeof(header.projection));
}

}  // namespace starling::modulo_format
