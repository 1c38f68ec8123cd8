// CUDA twins of kernels/vector_ops.h. All of x, y, scratch and results are device pointers. `stream` is a cudaStream_t;
// a call returns once the work is put on it and allocates nothing. The loop axpy gives the same bits as the host loop;
// the double sum is the same on every run and GPU, but adds up in another order than the host's.
#pragma once

#include <cstddef>

namespace starling {

inline constexpr size_t kSumScratchDoubles = 1024;  // what the sum needs; contents do not matter

void axpy_cuda(float a, const float* x, float* y, size_t count, void* stream);
void squared_norm_cuda(const float* x, size_t count, double* scratch, double* result, void* stream);

}  // namespace starling
