// CUDA twin of the encoder of kernels/rice.h. All pointers are device pointers; `stream` is a cudaStream_t; the call
// returns once the work is put on it and allocates nothing. Same bytes as the host's.
//
// rice_decode() has no twin: it is also what judges foreign bytes, and those arrive in host memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device.h"
#include "kernels/rice.h"

namespace starling {

// What a call needs beside its output; contents do not matter. Aligned to 8 bytes.
inline constexpr size_t kRiceScratchBytes = size_t{cuda::kMaxBlocks} * 32 * 8;

// Writes both streams, one after the other, zeros up to the end of out, and *unary_bytes: how long the second is.
// REQUIRES: the indices ascend, below `limit`; count below 2^32; out is aligned to 4 bytes and has room for
// rice_bytes_max() rounded up to a multiple of 4.
void rice_encode_cuda(const uint32_t* indices, size_t count, unsigned bits, size_t limit, std::byte* scratch,
                      std::byte* out, uint64_t* unary_bytes, void* stream);

}  // namespace starling
