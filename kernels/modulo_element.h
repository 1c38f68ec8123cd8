// What one element means in the modulo codec: shared by every loop, host and device, so that they cannot differ.
//
// The projection of a vector q of int32 is sum r_i * q_i mod 2^32. The weight r_i is a column weight times a row weight
// (rows of 4096), each a hash of its counter. The inner loop reads a table that stays in the L1 cache, and the result
// does not depend on the order of the sums. All weights are odd, so a single wrapped element (an error of 256 * w
// steps, or of 16 * w) always shows unless w is a multiple of 2^24, or of 2^28. Several escape once in some 10^7
// blocks, or 10^8.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling {

inline constexpr size_t kModuloRow = 4096;  // elements per row; part of the payload format

constexpr uint32_t mix_counter(uint32_t v) {
  v ^= v >> 16;
  v *= 0x85EBCA6Bu;
  v ^= v >> 13;
  v *= 0xC2B2AE35u;
  return v ^ (v >> 16);
}

constexpr uint32_t modulo_column_weight(uint32_t column) { return mix_counter(column + 0x9E3779B9u) | 1u; }
constexpr uint32_t modulo_row_weight(uint32_t row) { return mix_counter(row + 0x7F4A7C15u) | 1u; }

// The difference of two codes, each first brought to the finer step by its shift (0..6). The range is [-127, 127] for 8
// bits, [-7, 7] for 4. The tie (-128, -8) counts as 0, so that swapping the codes exactly negates the result.
template <int kBits>
constexpr int32_t modulo_difference(uint32_t own, int own_shift, uint32_t peer, int peer_shift) {
  constexpr int32_t kTie = 1 << (kBits - 1);
  const uint32_t raw = (peer << peer_shift) - (own << own_shift);
  const int32_t wrapped = static_cast<int32_t>((raw & (2 * kTie - 1)) ^ kTie) - kTie;
  return wrapped == -kTie ? 0 : wrapped;
}

// Codes of 4 bits: of each row of n elements, byte j holds element j below and element (n + 1) / 2 + j above, so that
// both halves of a row are read in order. Where n is odd, the last upper half is zero.

// The bytes of so many codes.
template <int kBits>
constexpr size_t modulo_code_bytes(size_t count) {
  static_assert(kBits == 8 || kBits == 4);
  return kBits == 8 ? count : count / 2 + count % 2;
}

}  // namespace starling
