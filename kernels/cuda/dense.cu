#include "kernels/cuda/dense.h"

#include <algorithm>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"

namespace starling {
namespace {
using namespace cuda;

// As many payloads as a launch takes: its parameters hold them.
constexpr size_t kTogether = 16;
struct Terms {
  DenseTerm each[kTogether];
  unsigned count = 0;
};

__device__ inline float value_at(const DenseTerm& term, size_t i) {
  if (!term.is_bf16) return reinterpret_cast<const float*>(term.values)[i];
  return __uint_as_float(static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(term.values)[i]) << 16);
}

// Adds what the terms say of an element, one after the other, to 0 or to what is there.
__global__ void dense_merge_kernel(Terms terms, bool from_zero, float* out, size_t count) {
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
  launch("dense_axpy", dense_merge_kernel, blocks_for(count), kThreads, 0, stream, Terms{{term}, 1}, false, y, count);
}

void dense_merge_cuda(std::span<const DenseTerm> terms, float* out, size_t count, void* stream) {
  if (count == 0) return;
  if (terms.empty()) return zero_async(out, count * sizeof(float), stream);
  for (size_t first = 0; first < terms.size(); first += kTogether) {
    const std::span<const DenseTerm> next = terms.subspan(first, std::min(kTogether, terms.size() - first));
    Terms some;
    std::copy(next.begin(), next.end(), some.each);
    some.count = static_cast<unsigned>(next.size());
    launch("dense_merge", dense_merge_kernel, blocks_for(count), kThreads, 0, stream, some, first == 0, out, count);
  }
}

}  // namespace starling
