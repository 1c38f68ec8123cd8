// The loops of the modulo codecs: quantise to kBits (8 or 4) an element, compare two code arrays, apply their
// difference. The header kernels/modulo_element.h defines the projection's weights, the difference of two codes, and
// where codes of 4 bits lie. Shape: `count` elements, modulo_code_bytes<kBits>(count) bytes of codes, any alignment.
// Overlap: none. Host memory; twins of encode and apply in kernels/cuda/modulo.h. Determinism: every result is the same
// bits on every instruction set and on CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling {

struct ModuloEncoded {
  uint32_t projection = 0;
  uint32_t max_abs_bits = 0;  // the float bits of the largest |x|; > 0x7F7FFFFF where a NaN or an infinity is
};

// Code i is q_i mod 2^kBits, q_i = x[i] * 2^-exponent rounded half to even. Codes and projection mean something only
// if the largest |q_i| is below 2^31, which the caller reads off max_abs_bits. REQUIRES: |exponent| <= 100.
template <int kBits>
ModuloEncoded modulo_encode(const float* x, size_t count, int exponent, std::byte* codes);

struct ModuloPair {
  uint32_t projection = 0;   // of the differences, in units of the finer step
  uint64_t sum_squares = 0;  // exact
  uint32_t max_abs = 0;      // 0..127, or 0..7
};

// The differences peer - own of two code arrays. REQUIRES: shifts in 0..6.
template <int kBits>
ModuloPair modulo_pair(const std::byte* own, int own_shift, const std::byte* peer, int peer_shift, size_t count);

// x[i] += factor * difference_i: one multiply, one add. REQUIRES: shifts in 0..6.
template <int kBits>
void modulo_apply(float factor, const std::byte* own, int own_shift, const std::byte* peer, int peer_shift,
                  size_t count, float* x);

}  // namespace starling
