// Floats as codes of a few bits: with scale s and L levels an element is one of s * {-L, ..., L}, or with one bit one
// of s * {-1, 1}. Rounding is stochastic: x / s, to the nearest 2^-16, goes to the whole number below or above, each
// with the probability that makes the expectation x / s (QSGD, Alistarh et al. 2017, arXiv:1610.02132, equation 3,
// without its norm).
//
// Codes lie in groups of 64 bytes. Bits 0 to bits - 1 of byte j hold element j of the group, the next ones element
// 64 + j, and so on, so that a vector of bytes meets neighboring floats. A last group that is not full has only the
// bytes that hold elements; the bits of absent elements are zero.
//   2, 4, 8 bits   code = L + level, at most 2 L
//   1 bit          1: positive
// Host memory, any alignment. Same bits on every instruction set: one float multiply, integers, integer hashes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace starling {

struct LevelCodes {
  int bits = 8;      // 1, 2, 4 or 8
  int levels = 127;  // L, 2 L < 2^bits; with one bit 1

  constexpr size_t group_elements() const { return 512 / static_cast<size_t>(bits); }
  constexpr size_t bytes(size_t count) const {
    const size_t group = group_elements();
    return count / group * 64 + std::min<size_t>(count % group, 64);
  }
};

// Element i of the codes, as a multiple of the scale.
inline int level_of(const LevelCodes& codes, const std::byte* bytes, size_t i) {
  const size_t group = codes.group_elements(), in_group = i % group;
  const auto byte = std::to_integer<unsigned>(bytes[i / group * 64 + in_group % 64]);
  const auto shift = static_cast<unsigned>(codes.bits) * static_cast<unsigned>(in_group / 64);
  const int code = static_cast<int>(byte >> shift & ((1u << codes.bits) - 1));
  return codes.bits == 1 ? 2 * code - 1 : code - codes.levels;
}

// Writes the codes of x[i] * inverse, clamped to the levels. With one bit the sign, of a zero at random. `first` counts
// the elements before x[0] for the random numbers: one seed and one position give one number. REQUIRES: x is finite,
// 2^16 * inverse too.
void levels_encode(const LevelCodes& codes, const float* x, size_t count, float inverse, uint64_t rng_seed,
                   size_t first, std::byte* out);

// Whether levels_encode() may have written these bytes: no code above 2 L, and zero bits where no element is.
bool levels_valid(const LevelCodes& codes, const std::byte* bytes, size_t count);

// out[i] = scale * level of element i.
void levels_decode(const LevelCodes& codes, const std::byte* bytes, size_t count, float scale, float* out);

// y[i] += a * (scale * level of element i), rounded by each operation.
void levels_axpy(const LevelCodes& codes, float a, const std::byte* bytes, size_t count, float scale, float* y);

// One of the payloads that levels_merge() adds up.
struct LevelTerm {
  float weight = 0;
  const std::byte* scales = nullptr;  // fp32, one for each block
  const std::byte* codes = nullptr;
};

// out[i] = the sum of weight * (scale * level of element i) over the terms, from zero in the order given, rounded by
// each operation: the bits that levels_axpy() leaves in zeros, one term after the other. Four terms at a time are added
// while an element's sum is in a register. `count` elements in blocks of `block` (whole groups), one after the other;
// the last block may be shorter.
void levels_merge(const LevelCodes& codes, size_t block, std::span<const LevelTerm> terms, float* out, size_t count);

// The squared norm of `count` elements in blocks of `block` (whole groups), one after the other; the last block may be
// shorter. `scales`: fp32, one for each block. The same bits as squared_norm() of what levels_decode() writes for them:
// owners and members judge by this norm, and their programs may differ in age.
double levels_squared_norm(const LevelCodes& codes, const std::byte* bytes, size_t count, size_t block,
                           const std::byte* scales);

// x[i] = size with the sign of x[i]; a zero stays +0. REQUIRES: no NaN.
void take_signs(float size, float* x, size_t count);

// The sum of |x[i]| in double, in a fixed order.
double sum_abs(const float* x, size_t count);

}  // namespace starling
