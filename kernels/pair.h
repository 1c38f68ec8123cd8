// Two dense payloads laid side by side: their distance, and x += coefficient * (peer - own).
// Shape: `count` values in each payload, little-endian, any alignment; x has `count` floats. Overlap: none.
// Host memory; twins of the apply loops in kernels/cuda/pair.h.
// Determinism: the same bits on every instruction set and on CUDA: float difference, one multiply, one add.
#pragma once

#include <cstddef>

namespace starling {

struct PairSums {
  double squared_distance = 0;   // of the float differences, summed in double in a fixed order
  float max_abs_difference = 0;  // an infinity or a NaN where a difference is one
};

PairSums pair_sums_f32(const std::byte* own, const std::byte* peer, size_t count);
PairSums pair_sums_bf16(const std::byte* own, const std::byte* peer, size_t count);
PairSums pair_sums_fp16(const std::byte* own, const std::byte* peer, size_t count);

void pair_apply_f32(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x);
void pair_apply_bf16(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x);
void pair_apply_fp16(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x);

}  // namespace starling
