#include "kernels/cuda/sparse.h"

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"

namespace starling {
namespace {
using namespace cuda;

__global__ void gather_kernel(const float* x, const uint32_t* indices, size_t count, float* out) {
  for (size_t j = first_index(); j < count; j += index_stride()) out[j] = x[indices[j]];
}

__global__ void scatter_kernel(const uint32_t* indices, const float* values, size_t count, size_t base, float* out) {
  for (size_t j = first_index(); j < count; j += index_stride()) out[indices[j] - base] = values[j];
}

__global__ void scatter_axpy_kernel(float a, const uint32_t* indices, const float* values, size_t count, float* y) {
  for (size_t j = first_index(); j < count; j += index_stride()) {
    float* const at = y + indices[j];
    *at = __fadd_rn(*at, __fmul_rn(a, values[j]));
  }
}

const uint32_t* words(const std::byte* indices) { return reinterpret_cast<const uint32_t*>(indices); }

}  // namespace

void gather_cuda(const float* x, const std::byte* indices, size_t count, float* out, void* stream) {
  if (count == 0) return;
  launch("gather", gather_kernel, blocks_for(count), kThreads, 0, stream, x, words(indices), count, out);
}

void scatter_cuda(const std::byte* indices, const float* values, size_t count, size_t base, float* out, void* stream) {
  if (count == 0) return;
  launch("scatter", scatter_kernel, blocks_for(count), kThreads, 0, stream, words(indices), values, count, base, out);
}

void scatter_axpy_cuda(float a, const std::byte* indices, const float* values, size_t count, float* y, void* stream) {
  if (count == 0) return;
  launch("scatter_axpy", scatter_axpy_kernel, blocks_for(count), kThreads, 0, stream, a, words(indices), values, count,
         y);
}

}  // namespace starling
