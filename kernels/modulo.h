// The loops of the modulo codec: quantise to one byte per element, compare two code arrays, apply their difference.
// kernels/modulo_element.h defines the projection's weights and the difference of two codes.
// Shape: `count` elements, one code byte each, any alignment. Overlap: none. Host memory; twins of encode and
// apply in kernels/cuda/modulo.h. Determinism: every result is the same bits on every instruction set and on CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling {

struct ModuloEncoded {
  uint32_t projection = 0;
  uint32_t max_abs_bits = 0;  // the float bits of the largest |x|; > 0x7F7FFFFF where a NaN or an infinity is
};

// codes[i] = q_i mod 256, q_i = x[i] * 2^-exponent rounded half to even. Codes and projection mean something only
// if the largest |q_i| is below 2^31, which the caller reads off max_abs_bits. REQUIRES: |exponent| <= 100.
ModuloEncoded modulo_encode(const float* x, size_t count, int exponent, std::byte* codes);

struct ModuloPair {
  uint32_t projection = 0;   // of the differences, in units of the finer step
  uint64_t sum_squares = 0;  // exact
  uint32_t max_abs = 0;      // 0..127
};

// The differences peer - own of two code arrays. REQUIRES: shifts in 0..6.
ModuloPair modulo_pair(const std::byte* own, int own_shift, const std::byte* peer, int peer_shift, size_t count);

// x[i] += factor * difference_i: one multiply, one add. REQUIRES: shifts in 0..6.
void modulo_apply(float factor, const std::byte* own, int own_shift, const std::byte* peer, int peer_shift,
                  size_t count, float* x);

}  // namespace starling
