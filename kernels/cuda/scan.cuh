// Sums over what stands before: in a warp, in a block, and over warps of a grid that each walk a segment of their own.
#pragma once

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"

namespace starling::cuda {

inline constexpr unsigned kWarps = kThreads / 32;   // of a block
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
      : count(element_count), blocks(blocks_for(count)), warps(static_cast<unsigned>(blocks) * kWarps),
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

// One block: replaces what each warp found by the sum of what those before it did, and returns the sum of all. Each
// thread takes warps that lie side by side.
template <typename T>
__device__ T add_up_warps(T* warps, unsigned warp_count) {
  const unsigned share = (warp_count + kThreads - 1) / kThreads;
  const unsigned begin = min(threadIdx.x * share, warp_count), end = min(begin + share, warp_count);
  T own = 0, total = 0;
  for (unsigned warp = begin; warp < end; ++warp) own += warps[warp];
  T before = block_sum_before(own, &total);
  for (unsigned warp = begin; warp < end; ++warp) {
    const T here = warps[warp];
    warps[warp] = before;
    before += here;
  }
  return total;
}

}  // namespace starling::cuda
