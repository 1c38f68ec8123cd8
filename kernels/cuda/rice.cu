#include "kernels/cuda/rice.h"

#include "kernels/check.h"
#include "kernels/cuda/scan.cuh"

// The low bits of an index have their place by its number. Its one in the unary stream stands behind the zeros and ones
// of all indices before: each warp adds up the zeros of a segment of its own, then writes it behind those before it.
// Bits of several indices share a word of the output, so each is put there by an atomic `or` of cleared memory.
namespace starling {
namespace {
using namespace cuda;

using Count = unsigned long long;

__device__ inline uint32_t gap_at(const uint32_t* indices, size_t j) {
  return j == 0 ? indices[0] : indices[j] - indices[j - 1] - 1;
}

// At bit `at`. REQUIRES: value < 2^32.
__device__ inline void put_bits(uint32_t* words, Count at, Count value) {
  const Count shifted = value << (at % 32);
  const auto low = static_cast<uint32_t>(shifted), high = static_cast<uint32_t>(shifted >> 32);
  if (low != 0) atomicOr(&words[at / 32], low);
  if (high != 0) atomicOr(&words[at / 32 + 1], high);
}

__global__ void count_zeros_kernel(const uint32_t* indices, Segments segments, unsigned bits, Count* warps) {
  const size_t warp = warp_of_grid();
  const size_t end = segment_begin(segments, warp + 1);
  Count zeros = 0;
  for (size_t j = segment_begin(segments, warp) + lane_of(); j < end; j += 32) zeros += gap_at(indices, j) >> bits;
  zeros = warp_sum_upto(zeros);
  if (lane_of() == 31) warps[warp] = zeros;
}

// One block.
__global__ void add_up_zeros_kernel(Count* warps, unsigned warp_count, size_t count, Count* unary_bytes) {
  const Count zeros = add_up(warps, warp_count);
  if (threadIdx.x == 0) *unary_bytes = (zeros + count + 7) / 8;
}

// The unary stream begins at bit `unary` of out.
__global__ void write_codes_kernel(const uint32_t* indices, Segments segments, unsigned bits, const Count* warps,
                                   Count unary, uint32_t* out) {
  const size_t warp = warp_of_grid();
  const size_t end = segment_begin(segments, warp + 1);
  Count zeros_before = warps[warp];
  for (size_t base = segment_begin(segments, warp); base < end; base += 32) {
    const size_t j = base + lane_of();
    const uint32_t gap = j < end ? gap_at(indices, j) : 0;
    const Count zeros = zeros_before + warp_sum_upto(Count{gap >> bits});
    if (j < end) {
      put_bits(out, j * bits, gap & ((1u << bits) - 1u));
      put_bits(out, unary + zeros + j, 1);
    }
    zeros_before = __shfl_sync(0xFFFFFFFFu, zeros, 31);
  }
}

}  // namespace

void rice_encode_cuda(const uint32_t* indices, size_t count, unsigned bits, size_t limit, std::byte* scratch,
                      std::byte* out, uint64_t* unary_bytes, void* stream) {
  STARLING_CHECK(count <= UINT32_MAX && bits <= 31);
  if (count == 0) return zero_async(unary_bytes, sizeof *unary_bytes, stream);
  static_assert(sizeof(uint64_t) == sizeof(Count));
  auto* const warps = reinterpret_cast<Count*>(scratch);
  const Segments segments(count);
  zero_async(out, (rice_bytes_max(count, limit, bits) + 3) / 4 * 4, stream);
  launch("rice_count_zeros", count_zeros_kernel, segments.blocks, kThreads, 0, stream, indices, segments, bits, warps);
  launch("rice_add_up_zeros", add_up_zeros_kernel, 1, kThreads, 0, stream, warps, segments.warps, count,
         reinterpret_cast<Count*>(unary_bytes));
  launch("rice_write_codes", write_codes_kernel, segments.blocks, kThreads, 0, stream, indices, segments, bits, warps,
         Count{8 * rice_low_bytes(count, bits)}, reinterpret_cast<uint32_t*>(out));
}

}  // namespace starling
