#include "kernels/cuda/pair.h"

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/fp16_element.h"

namespace starling {
namespace {
using namespace cuda;

__device__ float value_of(float stored) { return stored; }
enum class Bf16 : uint16_t {};
enum class Fp16 : uint16_t {};
__device__ float value_of(Bf16 stored) { return __uint_as_float(static_cast<uint32_t>(stored) << 16); }
__device__ float value_of(Fp16 stored) { return __uint_as_float(fp16_to_float_bits(static_cast<uint16_t>(stored))); }

// The _rn intrinsics are never fused, whatever the compiler was told.
template <typename Stored>
__global__ void apply_kernel(float coefficient, const Stored* own, const Stored* peer, size_t count, float* x) {
  struct Element {
    Stored own, peer;
    float x;
  };
  each_element(
      count, [&](size_t i) { return Element{own[i], peer[i], x[i]}; },
      [&](size_t i, const Element& at) {
        const float difference = __fsub_rn(value_of(at.peer), value_of(at.own));
        x[i] = __fadd_rn(at.x, __fmul_rn(coefficient, difference));
      });
}

template <typename Stored>
void apply(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x, void* stream) {
  if (count == 0) return;
  launch("pair_apply", apply_kernel<Stored>, blocks_for_elements(count), kThreads, 0, stream, coefficient,
         reinterpret_cast<const Stored*>(own), reinterpret_cast<const Stored*>(peer), count, x);
}

}  // namespace

void pair_apply_f32_cuda(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x,
                         void* stream) {
  apply<float>(coefficient, own, peer, count, x, stream);
}

void pair_apply_bf16_cuda(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x,
                          void* stream) {
  apply<Bf16>(coefficient, own, peer, count, x, stream);
}

void pair_apply_fp16_cuda(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x,
                          void* stream) {
  apply<Fp16>(coefficient, own, peer, count, x, stream);
}

}  // namespace starling
