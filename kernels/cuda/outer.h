// CUDA twins of kernels/outer.h. All pointers are device pointers; `stream` is a cudaStream_t; a call returns once the
// work is put on it. Same bits as the host loops.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/outer.h"

namespace starling {

// Raise *max_abs_bits to the float bits of the largest magnitude of a result: above 0x7F7FFFFF if one is not finite.
// REQUIRES: *max_abs_bits zeroed on the stream before.
void axpy_is_finite_cuda(float a, const float* x, const float* y, size_t count, uint32_t* max_abs_bits, void* stream);
void nesterov_is_finite_cuda(const NesterovStep& step, const float* v, const float* m, const float* r, size_t count,
                             uint32_t* max_abs_bits, void* stream);

void nesterov_cuda(const NesterovStep& step, const float* v, float* m, float* r, size_t count, void* stream);

}  // namespace starling
