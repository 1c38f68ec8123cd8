// CUDA twins of kernels/dense.h, same bits. All pointers are device pointers, the values aligned to their size. Terms
// lie on the host and are not needed after a call. `stream` is a cudaStream_t; a call returns once the work is put on
// it and allocates nothing.
#pragma once

#include "kernels/dense.h"

namespace starling {

void dense_axpy_cuda(const DenseTerm& term, float* y, size_t count, void* stream);
void dense_merge_cuda(std::span<const DenseTerm> terms, float* out, size_t count, void* stream);

}  // namespace starling
