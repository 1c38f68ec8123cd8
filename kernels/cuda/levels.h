// CUDA twins of kernels/levels.h for a vector that is cut into blocks of `block` elements, the last one shorter. Each
// has a scale of its own, and its codes begin at a byte of their own, as payloads of updates hold them. All pointers
// are device pointers; `stream` is a cudaStream_t; a call returns once the work is put on it and allocates nothing.
// Same bits as the host's loops, called block by block with `first` the elements before. REQUIRES: codes of 4 or 8
// bits.
//
// levels_valid() has no twin: it judges foreign bytes, and those arrive in host memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/levels.h"

namespace starling {

struct BlockedLevels {
  LevelCodes codes;
  size_t block = 512;  // elements; > 0

  size_t blocks(size_t count) const { return (count + block - 1) / block; }
  size_t bytes(size_t count) const { return count / block * codes.bytes(block) + codes.bytes(count % block); }
};

// Of each block the float bits of the largest |x|: above 0x7F7FFFFF if a NaN or an infinity is there.
void block_max_abs_cuda(const float* x, size_t count, size_t block, uint32_t* bits, void* stream);

// REQUIRES: x is finite; each scale is 0, or its inverse is finite.
void levels_encode_cuda(const BlockedLevels& levels, const float* x, size_t count, const float* scales,
                        uint64_t rng_seed, std::byte* out, void* stream);

void levels_decode_cuda(const BlockedLevels& levels, const std::byte* bytes, size_t count, const float* scales,
                        float* out, void* stream);

// y[i] += a * (scale * level of element i), rounded by each operation. With the codes of y itself and a = -1: what they
// leave out of y, the residual.
void levels_axpy_cuda(const BlockedLevels& levels, float a, const std::byte* bytes, size_t count, const float* scales,
                      float* y, void* stream);

}  // namespace starling
