#include "kernels/cuda/pair.h"

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"

namespace starling {
namespace {
using namespace cuda;

__device__ float value_of(float stored) { return stored; }
__device__ float value_of(uint16_t stored) { return __uint_as_float(uint32_t{stored} << 16); }

// The _rn intrinsics are never fused, whatever the compiler was told.
template <typename Stored>
__global__ void apply_kernel(float coefficient, const Stored* own, const Stored* peer, size_t count, float* x) {
  for (size_t i = first_index(); i < count; i += index_stride()) {
    const float difference = __fsub_rn(value_of(peer[i]), value_of(own[i]));
    x[i] = __fadd_rn(x[i], __fmul_rn(coefficient, difference));
  }
}

template <typename Stored>
void apply(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x, void* stream) {
  if (count == 0) return;
  launch("pair_apply", apply_kernel<Stored>, blocks_for(count), kThreads, 0, stream, coefficient,
         reinterpret_cast<const Stored*>(own), reinterpret_cast<const Stored*>(peer), count, x);
}

}  // namespace

void pair_apply_f32_cuda(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x,
                         void* stream) {
  apply<float>(coefficient, own, peer, count, x, stream);
}

void pair_apply_bf16_cuda(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x,
                          void* stream) {
  apply<uint16_t>(coefficient, own, peer, count, x, stream);
}

}  // namespace starling
