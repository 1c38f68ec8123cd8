#include "kernels/cuda/outer.h"

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"

namespace starling {
namespace {
using namespace cuda;

struct Stepped { float m, r; };

// The _rn intrinsics are never fused, whatever the compiler was told.
__device__ Stepped nesterov_element(const NesterovStep& step, float v, float m, float r) {
  const float value = __fmul_rn(step.factor, v);
  const float next = __fadd_rn(__fmul_rn(step.momentum, m), value);
  const float ahead = __fadd_rn(value, __fmul_rn(step.momentum, next));
  return {next, __fadd_rn(r, __fmul_rn(step.rate, ahead))};
}

__global__ void __launch_bounds__(kThreads, kAllAtOnce)
    axpy_is_finite_kernel(float a, const float* x, const float* y, size_t count, uint32_t* max_abs_bits) {
  struct Element { float x, y; };
  uint32_t largest = 0;
  each_element(
      count, [&](size_t i) { return Element{x[i], y[i]}; },
      [&](size_t, const Element& at) { largest = max(largest, magnitude_bits(__fadd_rn(at.y, __fmul_rn(a, at.x)))); });
  largest = warp_max(largest);
  if (first_in_warp()) atomicMax(max_abs_bits, largest);
}

__global__ void nesterov_is_finite_kernel(NesterovStep step, const float* v, const float* m, const float* r,
                                          size_t count, uint32_t* max_abs_bits) {
  uint32_t largest = 0;
  for (size_t i = first_index(); i < count; i += index_stride()) {
    const Stepped stepped = nesterov_element(step, v[i], m[i], r[i]);
    largest = max(largest, max(magnitude_bits(stepped.m), magnitude_bits(stepped.r)));
  }
  largest = warp_max(largest);
  if (first_in_warp()) atomicMax(max_abs_bits, largest);
}

__global__ void nesterov_kernel(NesterovStep step, const float* v, float* m, float* r, size_t count) {
  for (size_t i = first_index(); i < count; i += index_stride()) {
    const Stepped stepped = nesterov_element(step, v[i], m[i], r[i]);
    m[i] = stepped.m;
    r[i] = stepped.r;
  }
}

}  // namespace

void axpy_is_finite_cuda(float a, const float* x, const float* y, size_t count, uint32_t* max_abs_bits, void* stream) {
  if (count == 0) return;
  launch("axpy_is_finite", axpy_is_finite_kernel, blocks_for(count), kThreads, 0, stream, a, x, y, count, max_abs_bits);
}

void nesterov_is_finite_cuda(const NesterovStep& step, const float* v, const float* m, const float* r, size_t count,
                             uint32_t* max_abs_bits, void* stream) {
  if (count == 0) return;
  launch("nesterov_is_finite", nesterov_is_finite_kernel, blocks_for(count), kThreads, 0, stream, step, v, m, r, count,
         max_abs_bits);
}

void nesterov_cuda(const NesterovStep& step, const float* v, float* m, float* r, size_t count, void* stream) {
  if (count == 0) return;
  launch("nesterov", nesterov_kernel, blocks_for(count), kThreads, 0, stream, step, v, m, r, count);
}

}  // namespace starling
