// What the .cu files share: a grid that walks any count, and reductions inside a block.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device.h"

namespace starling::cuda {

#ifndef STARLING_CUDA_THREADS  // tests compile the kernels for other blocks too
#define STARLING_CUDA_THREADS 256
#endif
inline constexpr unsigned kThreads = STARLING_CUDA_THREADS;
static_assert(kThreads % 32 == 0 && (kThreads & (kThreads - 1)) == 0 && kThreads > 0 && kThreads <= 1024,
              "reductions halve the block and use whole warps");

// 0 blocks is no legal launch: callers return early where there is no work. A block for each tile of kThreads * kLoads
// elements, so that the scheduler levels out what processors do.
inline int blocks_for_tiles(size_t tiles) {
  const auto most = static_cast<size_t>(grid_limits.most);
  return static_cast<int>(tiles < most ? tiles : most) + grid_limits.extra;
}
// The same for kernels that keep something for each block, or add up by atomics: few blocks, which loop.
inline int blocks_for(size_t count) {
  const size_t blocks = (count + kThreads - 1) / kThreads;
  return blocks_for_tiles(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}
// How many blocks share a processor, which has 65,536 registers, if a thread keeps to so many: for __launch_bounds__.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr unsigned kProcessorThreads = 1024;
#else
inline constexpr unsigned kProcessorThreads = 2048;
#endif
constexpr unsigned blocks_at_once(unsigned registers) {
  const unsigned threads = 65536 / registers, most = threads < kProcessorThreads ? threads : kProcessorThreads;
  const unsigned blocks = most / kThreads;
  return blocks < 1 ? 1 : blocks < 32 ? blocks : 32;
}
// Few blocks, which loop, must all be there at once: else some would wait until others end.
inline constexpr unsigned kAllAtOnce = blocks_at_once(32);

// Elements that a thread loads before it uses one: a load at a time does not keep the memory busy.
inline constexpr unsigned kLoads = 4;

inline int blocks_for_elements(size_t count, unsigned loads = kLoads) {
  const size_t tile = size_t{kThreads} * loads;
  return blocks_for_tiles((count + tile - 1) / tile);
}
inline int blocks_for_warps(size_t warps) { return blocks_for_elements(32 * warps, 1); }

// Divides by what the host alone knows beforehand, in four operations (Granlund and Montgomery 1994, "Division by
// invariant integers using multiplication", figure 4.1).
struct Divisor {
  Divisor() = default;
  explicit Divisor(uint32_t divisor) {
    const auto bits = static_cast<uint32_t>(std::bit_width(divisor - 1));
    multiplier = static_cast<uint32_t>(((uint64_t{1} << bits) - divisor) * (uint64_t{1} << 32) / divisor + 1);
    first_shift = bits < 1 ? bits : 1;
    last_shift = bits < 1 ? 0 : bits - 1;
  }
  __device__ uint32_t divide(uint32_t number) const {
    const auto high = static_cast<uint32_t>(uint64_t{multiplier} * number >> 32);
    return (high + ((number - high) >> first_shift)) >> last_shift;
  }
  uint32_t multiplier = 1, first_shift = 0, last_shift = 0;  // by 1
};

// What a thread has of a tile: elements kThreads apart, so that a warp's lie side by side.
struct TileShare {
  size_t first;
  unsigned left;  // elements of the tile that are there
  __device__ size_t at(unsigned load) const { return first + load * kThreads; }
  __device__ bool has(unsigned load) const { return threadIdx.x + load * kThreads < left; }
};

// Calls use(share) for every tile of the block.
template <unsigned kLoadsOfTile, class Use>
__device__ void each_tile(size_t count, const Use& use) {
  constexpr size_t kTile = size_t{kThreads} * kLoadsOfTile;
  for (size_t tile = blockIdx.x * kTile; tile < count; tile += gridDim.x * kTile) {
    use(TileShare{tile + threadIdx.x, static_cast<unsigned>(min(count - tile, kTile))});
  }
}

// Calls use(i, load(i)) for every i below `count`, in tiles.
template <unsigned kLoadsOfTile = kLoads, class Load, class Use>
__device__ void each_element(size_t count, const Load& load, const Use& use) {
  each_tile<kLoadsOfTile>(count, [&](const TileShare& share) {
    decltype(load(size_t{})) values[kLoadsOfTile];
    for (unsigned l = 0; l < kLoadsOfTile; ++l) {
      if (share.has(l)) values[l] = load(share.at(l));
    }
    for (unsigned l = 0; l < kLoadsOfTile; ++l) {
      if (share.has(l)) use(share.at(l), values[l]);
    }
  });
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
