// CUDA twin of dense_axpy() of kernels/dense.h, same bits. Pointers are device pointers, the values aligned to their
// size. `stream` is a cudaStream_t; the call returns once the work is put on it and allocates nothing.
#pragma once

#include "kernels/dense.h"

namespace starling {

void dense_axpy_cuda(const DenseTerm& term, float* y, size_t count, void* stream);

}  // namespace starling
