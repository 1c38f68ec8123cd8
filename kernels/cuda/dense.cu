#include "kernels/cuda/dense.h"

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"

namespace starling {
namespace {
using namespace cuda;

__device__ inline float value_of(float stored) { return stored; }
__device__ inline float value_of(uint16_t bf16) { return __uint_as_float(uint32_t{bf16} << 16); }

constexpr unsigned kSums = 2 * kLoads;  // that a thread adds up at a time; values may be only two bytes

template <typename Stored>
__global__ void dense_axpy_kernel(float weight, const Stored* values, float* y, size_t count) {
  struct Element {
    float sum;
    Stored value;
  };
  each_element<kSums>(
      count, [&](size_t i) { return Element{y[i], values[i]}; },
      [&](size_t i, const Element& at) { y[i] = __fadd_rn(at.sum, __fmul_rn(weight, value_of(at.value))); });
}

}  // namespace

void dense_axpy_cuda(const DenseTerm& term, float* y, size_t count, void* stream) {
  if (count == 0) return;
  const auto add = [&](const auto* values) {
    launch("dense_axpy", dense_axpy_kernel<std::remove_cvref_t<decltype(*values)>>, blocks_for_elements(count, kSums),
           kThreads, 0, stream, term.weight, values, y, count);
  };
  if (term.is_bf16)
    add(reinterpret_cast<const uint16_t*>(term.values));
  else
    add(reinterpret_cast<const float*>(term.values));
}

}  // namespace starling
