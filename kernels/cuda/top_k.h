// CUDA twin of kernels/top_k.h. All pointers are device pointers; `stream` is a cudaStream_t; the call returns once the
// work is put on it and allocates nothing. Same indices as the host's; nothing depends on a sample. x is read twice,
// and six times where more than one of eight elements are about as large as the k-th largest or larger.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling {

inline constexpr uint32_t kTopKNotFinite = 0xFFFFFFFFu;

// What a call needs beside its output; contents do not matter. Aligned to 8 bytes. About half a byte an element.
size_t top_k_scratch_bytes(size_t count);

// Writes the indices of the k largest |x[i]|, ascending, of equal ones the lower. Writes to *found their number, min(k,
// the elements that are not zero), or kTopKNotFinite, and no indices, if x holds a NaN or an infinity.
// REQUIRES: indices has room for min(k, count); count below 2^32.
void top_k_cuda(const float* x, size_t count, size_t k, std::byte* scratch, uint32_t* indices, uint32_t* found,
                void* stream);

}  // namespace starling
