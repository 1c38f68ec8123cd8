#include "kernels/cuda/modulo.h"

#include <cmath>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/modulo_element.h"

namespace starling {
namespace {
using namespace cuda;

// A thread's bytes of a tile, at most kMost, and which lies in one row: where their one or two elements are
// (kernels/modulo_element.h).
template <int kBits, unsigned kMost>
struct RowShare {
  static constexpr unsigned kHalves = 8 / kBits;
  static constexpr unsigned kRowBytes = kModuloRow / kHalves;
  static constexpr unsigned kBytes = kRowBytes < kThreads * kMost ? kRowBytes / kThreads : kMost;
  static_assert(kRowBytes % (kBytes * kThreads) == 0, "a tile lies in one row");

  __device__ RowShare(size_t tile_byte, size_t count)
      : row(static_cast<uint32_t>(tile_byte / kRowBytes)),
        start(size_t{row} * kModuloRow),
        start_byte(size_t{row} * kRowBytes),
        elements(static_cast<uint32_t>(min(count - start, kModuloRow))),
        lower(kHalves == 1 ? elements : elements - elements / 2),
        first(static_cast<uint32_t>(tile_byte % kRowBytes) + threadIdx.x) {}

  __device__ uint32_t in_row(unsigned l, unsigned half) const { return half * lower + first + l * kThreads; }
  __device__ bool has_byte(unsigned l) const { return first + l * kThreads < lower; }
  __device__ bool has(unsigned l, unsigned half) const {  // a byte's upper half may stand for nothing
    return half == 0 ? has_byte(l) : in_row(l, half) < elements;
  }
  __device__ size_t byte_at(unsigned l) const { return start_byte + in_row(l, 0); }
  __device__ size_t at(unsigned l, unsigned half) const { return start + in_row(l, half); }

  uint32_t row;
  size_t start, start_byte;
  uint32_t elements, lower, first;  // of the row; those of the lower half; this thread's byte of the row
};

// The same of a row of which nothing is missing.
template <int kBits, unsigned kMost>
struct WholeRowShare {
  using Any = RowShare<kBits, kMost>;
  __device__ explicit WholeRowShare(size_t tile_byte)
      : row(tile_byte / Any::kRowBytes), first(static_cast<uint32_t>(tile_byte % Any::kRowBytes) + threadIdx.x) {}

  __device__ uint32_t in_row(unsigned l, unsigned half) const { return half * Any::kRowBytes + first + l * kThreads; }
  __device__ bool has_byte(unsigned) const { return true; }
  __device__ bool has(unsigned, unsigned) const { return true; }
  __device__ size_t byte_at(unsigned l) const { return row * Any::kRowBytes + in_row(l, 0); }
  __device__ size_t at(unsigned l, unsigned half) const { return row * kModuloRow + in_row(l, half); }

  size_t row;
  uint32_t first;
};

// Calls use(share) for every tile of the block.
template <int kBits, class Use>
__device__ void each_row_share(size_t count, const Use& use) {
  using Share = RowShare<kBits, kLoads>;
  constexpr size_t kTile = size_t{kThreads} * Share::kBytes;
  const size_t bytes = modulo_code_bytes<kBits>(count);
  for (size_t byte = blockIdx.x * kTile; byte < bytes; byte += gridDim.x * kTile) use(Share(byte, count));
}

// What blocks add up, and the grid adds up by integer atomics, whose order does not show. All threads must call it.
__device__ void add_to_result(uint32_t projection, uint32_t largest, ModuloEncoded* result) {
  SHARED_ARRAY(uint32_t, sums, 2);
  if (threadIdx.x < 2) sums[threadIdx.x] = 0;
  __syncthreads();
  projection = warp_sum(projection);
  largest = warp_max(largest);
  if (first_in_warp()) {
    atomicAdd(&sums[0], projection);
    atomicMax(&sums[1], largest);
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  atomicAdd(&result->projection, sums[0]);
  atomicMax(&result->max_abs_bits, sums[1]);
}

template <int kBits>
constexpr unsigned kEncodeBytes = kBits == 8 ? 2 * kLoads : kLoads;
constexpr size_t kEncodeBlocks = 4096;  // so few that their additions to the result take no time

// A block takes the same part of many rows, so that a thread finds the weights of its columns once. A missing element
// is a zero, which adds nothing to any result.
template <int kBits>
__global__ void encode_kernel(const float* x, size_t count, float scale, uint8_t* codes, ModuloEncoded* result) {
  using Share = RowShare<kBits, kEncodeBytes<kBits>>;
  using Whole = WholeRowShare<kBits, kEncodeBytes<kBits>>;
  constexpr size_t kParts = Share::kRowBytes / (Share::kBytes * kThreads);
  const size_t rows = (count + kModuloRow - 1) / kModuloRow, teams = max(gridDim.x / kParts, size_t{1});
  const size_t team = blockIdx.x / kParts;
  uint32_t projection = 0, largest = 0;
  for (size_t part = blockIdx.x % kParts; part < kParts && team < teams; part += gridDim.x) {
    const auto tile_byte = [&](size_t row) { return row * Share::kRowBytes + part * (Share::kBytes * kThreads); };
    const auto see = [&](const auto& share, const auto& weight_at) {
      float values[Share::kBytes][Share::kHalves];
      for (unsigned l = 0; l < Share::kBytes; ++l) {
        for (unsigned half = 0; half < Share::kHalves; ++half) {
          values[l][half] = share.has(l, half) ? x[share.at(l, half)] : 0.0f;
        }
      }
      uint32_t of_row = 0;
      for (unsigned l = 0; l < Share::kBytes; ++l) {
        uint32_t code = 0;
        for (unsigned half = 0; half < Share::kHalves; ++half) {
          const float value = values[l][half];
          largest = max(largest, magnitude_bits(value));
          const auto q = static_cast<uint32_t>(__float2int_rn(__fmul_rn(value, scale)));
          of_row += weight_at(l, half) * q;
          code |= (q & ((1u << kBits) - 1u)) << half * kBits;
        }
        if (share.has_byte(l)) codes[share.byte_at(l)] = static_cast<uint8_t>(code);
      }
      projection += modulo_row_weight(static_cast<uint32_t>(share.row)) * of_row;
    };
    uint32_t weights[Share::kBytes][Share::kHalves];
    const Whole any(tile_byte(0));
    for (unsigned l = 0; l < Share::kBytes; ++l) {
      for (unsigned half = 0; half < Share::kHalves; ++half) {
        weights[l][half] = modulo_column_weight(any.in_row(l, half));
      }
    }
    size_t row = team;
    for (; row < count / kModuloRow; row += teams) {
      see(Whole(tile_byte(row)), [&](unsigned l, unsigned half) { return weights[l][half]; });
    }
    if (row >= rows) continue;
    const Share last(tile_byte(row), count);
    see(last, [&](unsigned l, unsigned half) { return modulo_column_weight(last.in_row(l, half)); });
  }
  add_to_result(projection, largest, result);
}

template <int kBits>
__global__ void apply_kernel(float factor, const uint8_t* own, int own_shift, const uint8_t* peer, int peer_shift,
                             size_t count, float* x) {
  using Share = RowShare<kBits, kLoads>;
  each_row_share<kBits>(count, [&](const Share& share) {
    uint32_t own_codes[Share::kBytes], peer_codes[Share::kBytes];
    float values[Share::kBytes][Share::kHalves];
    for (unsigned l = 0; l < Share::kBytes; ++l) {
      own_codes[l] = share.has_byte(l) ? own[share.byte_at(l)] : 0;
      peer_codes[l] = share.has_byte(l) ? peer[share.byte_at(l)] : 0;
      for (unsigned half = 0; half < Share::kHalves; ++half) {
        values[l][half] = share.has(l, half) ? x[share.at(l, half)] : 0.0f;
      }
    }
    for (unsigned l = 0; l < Share::kBytes; ++l) {
      for (unsigned half = 0; half < Share::kHalves; ++half) {
        if (!share.has(l, half)) continue;
        const int32_t difference =
            modulo_difference<kBits>(own_codes[l] >> half * 4, own_shift, peer_codes[l] >> half * 4, peer_shift);
        x[share.at(l, half)] = __fadd_rn(values[l][half], __fmul_rn(factor, static_cast<float>(difference)));
      }
    }
  });
}

}  // namespace

template <int kBits>
void modulo_encode_cuda(const float* x, size_t count, int exponent, std::byte* codes, ModuloEncoded* result,
                        void* stream) {
  if (count == 0) return;
  constexpr size_t kTile = size_t{kThreads} * RowShare<kBits, kEncodeBytes<kBits>>::kBytes;
  const size_t tiles = (modulo_code_bytes<kBits>(count) + kTile - 1) / kTile;
  launch("modulo_encode", encode_kernel<kBits>, blocks_for_tiles(tiles < kEncodeBlocks ? tiles : kEncodeBlocks),
         kThreads, 0, stream, x, count, std::ldexp(1.0f, -exponent), reinterpret_cast<uint8_t*>(codes), result);
}

template <int kBits>
void modulo_apply_cuda(float factor, const std::byte* own, int own_shift, const std::byte* peer, int peer_shift,
                       size_t count, float* x, void* stream) {
  if (count == 0) return;
  const auto* const own_codes = reinterpret_cast<const uint8_t*>(own);
  const auto* const peer_codes = reinterpret_cast<const uint8_t*>(peer);
  const int blocks = blocks_for_elements(modulo_code_bytes<kBits>(count), RowShare<kBits, kLoads>::kBytes);
  launch("modulo_apply", apply_kernel<kBits>, blocks, kThreads, 0, stream, factor, own_codes, own_shift, peer_codes,
         peer_shift, count, x);
}

template void modulo_encode_cuda<8>(const float*, size_t, int, std::byte*, ModuloEncoded*, void*);
template void modulo_encode_cuda<4>(const float*, size_t, int, std::byte*, ModuloEncoded*, void*);
template void modulo_apply_cuda<8>(float, const std::byte*, int, const std::byte*, int, size_t, float*, void*);
template void modulo_apply_cuda<4>(float, const std::byte*, int, const std::byte*, int, size_t, float*, void*);

}  // namespace starling
