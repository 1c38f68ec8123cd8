// What the .cu files share: a grid that walks any count, and reductions inside a block.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace starling::cuda {

inline constexpr int kThreads = 256;
inline constexpr int kMaxBlocks = 1024;  // enough to fill the largest GPUs; longer vectors loop

// 0 blocks is no legal launch: callers return early on count == 0.
inline int blocks_for(size_t count) {
  const size_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<int>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

__device__ inline size_t first_index() { return size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline size_t index_stride() { return size_t{gridDim.x} * blockDim.x; }

__device__ inline uint32_t magnitude_bits(float value) { return __float_as_uint(value) & 0x7FFFFFFFu; }

// The whole warp's sum or maximum, in lane 0. Every lane must call it.
__device__ inline uint32_t warp_sum(uint32_t value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xFFFFFFFFu, value, step);
  return value;
}
__device__ inline uint32_t warp_max(uint32_t value) {
  for (int step = 16; step > 0; step /= 2) value = max(value, __shfl_down_sync(0xFFFFFFFFu, value, step));
  return value;
}
__device__ inline bool first_in_warp() { return threadIdx.x % 32 == 0; }

}  // namespace starling::cuda
