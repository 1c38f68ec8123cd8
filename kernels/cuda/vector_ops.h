// CUDA twins of kernels/vector_ops.h. All of x, y, scratch and results are device pointers. `stream` is a cudaStream_t;
// a call returns once the work is put on it and allocates nothing. The loop axpy gives the same bits as the host loop;
// the double sums are the same on every run and GPU, but add up in another order than the host's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling {

inline constexpr size_t kSumScratchDoubles = 1024;  // what the two sums need; contents do not matter

void axpy_cuda(float a, const float* x, float* y, size_t count, void* stream);
void squared_norm_cuda(const float* x, size_t count, double* scratch, double* result, void* stream);
void squared_distance_cuda(const float* x, const float* y, size_t count, double* scratch, double* result, void* stream);
// Adds to *result. REQUIRES: *result zeroed on the stream before. (max_abs: max_abs_bits_cuda in cuda/cast.h.)
void count_nonfinite_cuda(const float* x, size_t count, uint64_t* result, void* stream);

}  // namespace starling
