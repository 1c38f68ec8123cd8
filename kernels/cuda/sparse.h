// CUDA twins of the loops of kernels/sparse.h that touch a vector; payloads are checked on the host, where they lie.
// All pointers are device pointers, the indices aligned to 4 bytes; `stream` is a cudaStream_t; a call returns once the
// work is put on it. Same bits as the host loops. REQUIRES: the indices ascend strictly and lie within the vector.
#pragma once

#include <cstddef>

namespace starling {

void gather_cuda(const float* x, const std::byte* indices, size_t count, float* out, void* stream);
void scatter_cuda(const std::byte* indices, const float* values, size_t count, size_t base, float* out, void* stream);
void scatter_axpy_cuda(float a, const std::byte* indices, const float* values, size_t count, float* y, void* stream);

}  // namespace starling
