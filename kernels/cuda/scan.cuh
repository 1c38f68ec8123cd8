// Sums over what stands before: in a warp, in a block, and over warps of a grid that each walk a segment of their own.
#pragma once

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"

namespace starling::cuda {

inline constexpr unsigned kWarps = kThreads / 32;  // of a block
static_assert(kWarps <= 32);

__device__ inline uint32_t lane_of() { return threadIdx.x % 32; }

// The sum over this lane and those before it. Every lane must call it.
template <typename T>
__device__ T warp_sum_upto(T value) {
  for (unsigned step = 1; step < 32; step *= 2) {
    const T other = __shfl_up_sync(0xFFFFFFFFu, value, step);
    if (lane_of() >= step) value += other;
  }
  return value;
}

// The sum over the threads before this one; *total: over all of the block. Begins and ends without a barrier.
template <typename T>
__device__ T block_sum_before(T value, T* total) {
  SHARED_ARRAY(T, sums, kWarps);
  const T upto = warp_sum_upto(value);
  if (lane_of() == 31) sums[threadIdx.x / 32] = upto;
  __syncthreads();
  T before = upto - value;
  *total = 0;
  for (unsigned warp = 0; warp < kWarps; ++warp) {
    if (warp < threadIdx.x / 32) before += sums[warp];
    *total += sums[warp];
  }
  return before;
}

// How a grid of whole warps shares a run of elements: each takes `each` of them, a multiple of 32.
struct Segments {
  explicit Segments(size_t element_count)
      : count(element_count),
        blocks(blocks_for(count)),
        warps(static_cast<unsigned>(blocks) * kWarps),
        each(32 * ((count + size_t{32} * warps - 1) / (size_t{32} * warps))) {}

  size_t count;
  int blocks;
  unsigned warps;
  size_t each;
};

__device__ inline size_t warp_of_grid() { return first_index() / 32; }
// Where a warp begins; the next one begins where it ends.
__device__ inline size_t segment_begin(const Segments& segments, size_t warp) {
  return min(warp * segments.each, segments.count);
}

// One block: replaces each of these numbers by the sum of those before it, and returns the sum of all. Through shared
// memory, so that a warp reads and writes neighbors, while each thread adds up numbers that lie side by side.
template <typename T>
__device__ T add_up(T* numbers, size_t count) {
  constexpr unsigned kEach = kThreads > 256 ? 4 : 16;  // of a thread, at a time
  constexpr unsigned kPitch = kEach + 1;               // so that the threads of a warp use different banks
  SHARED_ARRAY(T, chunk, kThreads * kPitch);
  T* const own = chunk + threadIdx.x * kPitch;
  T before = 0;
  for (size_t base = 0; base < count; base += kThreads * kEach) {
    for (unsigned e = 0; e < kEach; ++e) {
      const unsigned i = e * kThreads + threadIdx.x;
      chunk[i + i / kEach] = base + i < count ? numbers[base + i] : 0;
    }
    __syncthreads();
    T sum = 0, total = 0;
    for (unsigned e = 0; e < kEach; ++e) sum += own[e];
    T here = before + block_sum_before(sum, &total);
    for (unsigned e = 0; e < kEach; ++e) {
      const T number = own[e];
      own[e] = here;
      here += number;
    }
    before += total;
    __syncthreads();
    for (unsigned e = 0; e < kEach; ++e) {  // a thread's places here are those that it fills next
      const unsigned i = e * kThreads + threadIdx.x;
      if (base + i < count) numbers[base + i] = chunk[i + i / kEach];
    }
  }
  return before;
}

}  // namespace starling::cuda
