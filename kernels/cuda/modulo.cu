#include "kernels/cuda/modulo.h"

#include <cmath>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/modulo_element.h"

namespace starling {
namespace {
using namespace cuda;

__global__ void encode_kernel(const float* x, size_t count, float scale, uint8_t* codes, ModuloEncoded* result) {
  uint32_t projection = 0;
  uint32_t largest = 0;
  for (size_t i = first_index(); i < count; i += index_stride()) {
    const float value = x[i];
    largest = max(largest, magnitude_bits(value));
    const auto q = static_cast<uint32_t>(__float2int_rn(__fmul_rn(value, scale)));
    codes[i] = static_cast<uint8_t>(q);
    const auto column = static_cast<uint32_t>(i % kModuloRow);
    const auto row = static_cast<uint32_t>(i / kModuloRow);
    projection += modulo_column_weight(column) * modulo_row_weight(row) * q;
  }
  projection = warp_sum(projection);
  largest = warp_max(largest);
  if (first_in_warp()) {  // integers: the order of the atomics does not show
    atomicAdd(&result->projection, projection);
    atomicMax(&result->max_abs_bits, largest);
  }
}

__global__ void apply_kernel(float factor, const uint8_t* own, int own_shift, const uint8_t* peer, int peer_shift,
                             size_t count, float* x) {
  for (size_t i = first_index(); i < count; i += index_stride()) {
    const int32_t difference = modulo_difference(own[i], own_shift, peer[i], peer_shift);
    x[i] = __fadd_rn(x[i], __fmul_rn(factor, static_cast<float>(difference)));
  }
}

}  // namespace

void modulo_encode_cuda(const float* x, size_t count, int exponent, std::byte* codes, ModuloEncoded* result,
                        void* stream) {
  if (count == 0) return;
  launch("modulo_encode", encode_kernel, blocks_for(count), kThreads, 0, stream, x, count, std::ldexp(1.0f, -exponent),
         reinterpret_cast<uint8_t*>(codes), result);
}

void modulo_apply_cuda(float factor, const std::byte* own, int own_shift, const std::byte* peer, int peer_shift,
                       size_t count, float* x, void* stream) {
  if (count == 0) return;
  const auto* const own_codes = reinterpret_cast<const uint8_t*>(own);
  const auto* const peer_codes = reinterpret_cast<const uint8_t*>(peer);
  launch("modulo_apply", apply_kernel, blocks_for(count), kThreads, 0, stream, factor, own_codes, own_shift, peer_codes,
         peer_shift, count, x);
}

}  // namespace starling
