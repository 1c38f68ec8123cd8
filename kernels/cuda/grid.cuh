// What the .cu files share: a grid that walks any count, and reductions inside a block.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device.h"

namespace starling::cuda {

#ifndef STARLING_CUDA_THREADS   // tests compile the kernels for other blocks too
#define STARLING_CUDA_THREADS 256
#endif
inline constexpr unsigned kThreads = STARLING_CUDA_THREADS;
static_assert(kThreads % 32 == 0 && (kThreads & (kThreads - 1)) == 0 && kThreads > 0 && kThreads <= 1024,
              "reductions halve the block and use whole warps");

// 0 blocks is no legal launch: callers return early on count == 0.
inline int blocks_for(size_t count) {
  if (count == 0) return 0;
  const size_t blocks = (count + kThreads - 1) / kThreads, most = static_cast<size_t>(grid_limits.most);
  return static_cast<int>(blocks < most ? blocks : most) + grid_limits.extra;
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
