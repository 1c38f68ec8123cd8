// CUDA twins of kernels/low_rank.h. All pointers are device pointers; `stream` is a cudaStream_t; a call returns once
// the work is put on it and allocates nothing. Same bits as the host's loops: sums add in one order, and that over
// the rows is one chain for each column; so transposed_times_cuda() fills a GPU where there are many columns.
#pragma once

#include "kernels/low_rank.h"

namespace starling {

void matrix_times_cuda(const MatrixSize& size, const float* x, const float* q, float* y, void* stream);
void transposed_times_cuda(const MatrixSize& size, const float* x, const float* p, float* z, void* stream);
void add_outer_cuda(const MatrixSize& size, float coefficient, const float* p, const float* z, float* x, void* stream);

}  // namespace starling
