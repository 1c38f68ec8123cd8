#include "kernels/cuda/cast.h"

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/fp16_element.h"

namespace starling {
namespace {
using namespace cuda;

__global__ void __launch_bounds__(kThreads, kAllAtOnce)
    max_abs_bits_kernel(const float* x, size_t count, uint32_t* max_abs_bits) {
  uint32_t largest = 0;
  each_element<2 * kLoads>(
      count, [&](size_t i) { return x[i]; },
      [&](size_t, float value) { largest = max(largest, magnitude_bits(value)); });
  largest = warp_max(largest);
  if (first_in_warp()) atomicMax(max_abs_bits, largest);
}

__device__ uint16_t bf16_of(float value) {
  const uint32_t magnitude = magnitude_bits(value);
  const uint32_t sign = (__float_as_uint(value) >> 16) & 0x8000u;
  if (magnitude < 0x7F800000u) {
    const uint32_t rounded = (magnitude + 0x7FFFu + ((magnitude >> 16) & 1u)) >> 16;
    return static_cast<uint16_t>(min(rounded, 0x7F7Fu) | sign);
  }
  const uint32_t quiet = magnitude > 0x7F800000u ? 0x40u : 0u;
  return static_cast<uint16_t>((magnitude >> 16) | quiet | sign);
}

struct ToBf16 {
  __device__ static uint16_t of(float value) { return bf16_of(value); }
};
struct ToFp16 {
  __device__ static uint16_t of(float value) { return fp16_of(__float_as_uint(value)); }
};

template <typename To>
__global__ void __launch_bounds__(kThreads, kAllAtOnce)
    half_kernel(const float* x, size_t count, uint16_t* out, uint32_t* max_abs_bits) {
  uint32_t largest = 0;
  each_element(
      count, [&](size_t i) { return x[i]; },
      [&](size_t i, float value) {
        largest = max(largest, magnitude_bits(value));
        out[i] = To::of(value);
      });
  largest = warp_max(largest);
  if (first_in_warp()) atomicMax(max_abs_bits, largest);
}

__global__ void bf16_to_f32_kernel(const uint16_t* halves, size_t count, float* out) {
  each_element<2 * kLoads>(
      count, [&](size_t i) { return halves[i]; },
      [&](size_t i, uint16_t half) { out[i] = __uint_as_float(uint32_t{half} << 16); });
}

}  // namespace

void max_abs_bits_cuda(const float* x, size_t count, uint32_t* max_abs_bits, void* stream) {
  if (count == 0) return;
  launch("max_abs_bits", max_abs_bits_kernel, blocks_for(count), kThreads, 0, stream, x, count, max_abs_bits);
}

void f32_to_bf16_cuda(const float* x, size_t count, std::byte* out, uint32_t* max_abs_bits, void* stream) {
  if (count == 0) return;
  launch("f32_to_bf16", half_kernel<ToBf16>, blocks_for(count), kThreads, 0, stream, x, count,
         reinterpret_cast<uint16_t*>(out), max_abs_bits);
}

void f32_to_fp16_cuda(const float* x, size_t count, std::byte* out, uint32_t* max_abs_bits, void* stream) {
  if (count == 0) return;
  launch("f32_to_fp16", half_kernel<ToFp16>, blocks_for(count), kThreads, 0, stream, x, count,
         reinterpret_cast<uint16_t*>(out), max_abs_bits);
}

void bf16_to_f32_cuda(const std::byte* bytes, size_t count, float* out, void* stream) {
  if (count == 0) return;
  launch("bf16_to_f32", bf16_to_f32_kernel, blocks_for_elements(count, 2 * kLoads), kThreads, 0, stream,
         reinterpret_cast<const uint16_t*>(bytes), count, out);
}

}  // namespace starling
