#include "kernels/cuda/dense.h"

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/terms.cuh"

namespace starling {
namespace {
using namespace cuda;

__device__ inline float value_at(const DenseTerm& term, size_t i) {
  if (!term.is_bf16) return reinterpret_cast<const float*>(term.values)[i];
  return __uint_as_float(static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(term.values)[i]) << 16);
}

// Adds what the terms say of an element, one after the other, to 0 or to what is there.
__global__ void dense_merge_kernel(Terms<DenseTerm> terms, bool from_zero, float* out, size_t count) {
  for (size_t i = first_index(); i < count; i += index_stride()) {
    float sum = from_zero ? 0.0f : out[i];
    for (unsigned t = 0; t < terms.count; ++t) {
      sum = __fadd_rn(sum, __fmul_rn(terms.each[t].weight, value_at(terms.each[t], i)));
    }
    out[i] = sum;
  }
}

}  // namespace

void dense_axpy_cuda(const DenseTerm& term, float* y, size_t count, void* stream) {
  if (count == 0) return;
  launch("dense_axpy", dense_merge_kernel, blocks_for(count), kThreads, 0, stream,
         Terms<DenseTerm>{{term}, 1}, false, y, count);
}

void dense_merge_cuda(std::span<const DenseTerm> terms, float* out, size_t count, void* stream) {
  if (count == 0) return;
  if (terms.empty()) return zero_async(out, count * sizeof(float), stream);
  launch_terms(terms, [&](const Terms<DenseTerm>& some, bool from_zero) {
    launch("dense_merge", dense_merge_kernel, blocks_for(count), kThreads, 0, stream, some, from_zero, out, count);
  });
}

}  // namespace starling
