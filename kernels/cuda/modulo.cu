#include "kernels/cuda/modulo.h"

#include <cmath>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/modulo_element.h"

namespace starling {
namespace {
using namespace cuda;

// One element's share of the results.
struct Encoded {
  float scale;
  uint32_t projection = 0;
  uint32_t largest = 0;

  __device__ uint32_t see(const float* x, size_t i) {
    const float value = x[i];
    largest = max(largest, magnitude_bits(value));
    const auto q = static_cast<uint32_t>(__float2int_rn(__fmul_rn(value, scale)));
    const auto column = static_cast<uint32_t>(i % kModuloRow);
    const auto row = static_cast<uint32_t>(i / kModuloRow);
    projection += modulo_column_weight(column) * modulo_row_weight(row) * q;
    return q;
  }
};

// Where the one or two elements of a byte of codes are (kernels/modulo_element.h): upper == count if there is none.
struct Places {
  size_t lower, upper;
};
template <int kBits>
__device__ Places places_of(size_t byte, size_t count) {
  if (kBits == 8) return {byte, count};
  const size_t start = byte / kModuloRowBytes4 * kModuloRow, at = byte % kModuloRowBytes4;
  const size_t elements = count - start < kModuloRow ? count - start : kModuloRow;
  const size_t upper = elements - elements / 2 + at;
  return {start + at, upper < elements ? start + upper : count};
}

template <int kBits>
__global__ void encode_kernel(const float* x, size_t count, float scale, uint8_t* codes, ModuloEncoded* result) {
  constexpr uint32_t kMask = (1u << kBits) - 1;
  Encoded encoded{scale};
  for (size_t byte = first_index(); byte < modulo_code_bytes<kBits>(count); byte += index_stride()) {
    const Places at = places_of<kBits>(byte, count);
    uint32_t code = encoded.see(x, at.lower) & kMask;
    if (at.upper < count) code |= (encoded.see(x, at.upper) & kMask) << 4;
    codes[byte] = static_cast<uint8_t>(code);
  }
  const uint32_t projection = warp_sum(encoded.projection);
  const uint32_t largest = warp_max(encoded.largest);
  if (first_in_warp()) {  // integers: the order of the atomics does not show
    atomicAdd(&result->projection, projection);
    atomicMax(&result->max_abs_bits, largest);
  }
}

template <int kBits>
__global__ void apply_kernel(float factor, const uint8_t* own, int own_shift, const uint8_t* peer, int peer_shift,
                             size_t count, float* x) {
  for (size_t byte = first_index(); byte < modulo_code_bytes<kBits>(count); byte += index_stride()) {
    const auto add = [&](size_t i, uint32_t own_code, uint32_t peer_code) {
      const int32_t difference = modulo_difference<kBits>(own_code, own_shift, peer_code, peer_shift);
      x[i] = __fadd_rn(x[i], __fmul_rn(factor, static_cast<float>(difference)));
    };
    const Places at = places_of<kBits>(byte, count);
    add(at.lower, own[byte], peer[byte]);
    if (at.upper < count) add(at.upper, own[byte] >> 4, peer[byte] >> 4);
  }
}

}  // namespace

template <int kBits>
void modulo_encode_cuda(const float* x, size_t count, int exponent, std::byte* codes, ModuloEncoded* result,
                        void* stream) {
  if (count == 0) return;
  launch("modulo_encode", encode_kernel<kBits>, blocks_for(modulo_code_bytes<kBits>(count)), kThreads, 0, stream, x,
         count, std::ldexp(1.0f, -exponent), reinterpret_cast<uint8_t*>(codes), result);
}

template <int kBits>
void modulo_apply_cuda(float factor, const std::byte* own, int own_shift, const std::byte* peer, int peer_shift,
                       size_t count, float* x, void* stream) {
  if (count == 0) return;
  const auto* const own_codes = reinterpret_cast<const uint8_t*>(own);
  const auto* const peer_codes = reinterpret_cast<const uint8_t*>(peer);
  launch("modulo_apply", apply_kernel<kBits>, blocks_for(modulo_code_bytes<kBits>(count)), kThreads, 0, stream, factor,
         own_codes, own_shift, peer_codes, peer_shift, count, x);
}

template void modulo_encode_cuda<8>(const float*, size_t, int, std::byte*, ModuloEncoded*, void*);
template void modulo_encode_cuda<4>(const float*, size_t, int, std::byte*, ModuloEncoded*, void*);
template void modulo_apply_cuda<8>(float, const std::byte*, int, const std::byte*, int, size_t, float*, void*);
template void modulo_apply_cuda<4>(float, const std::byte*, int, const std::byte*, int, size_t, float*, void*);

}  // namespace starling
