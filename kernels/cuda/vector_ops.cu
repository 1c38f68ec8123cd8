#include "kernels/cuda/vector_ops.h"

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"

namespace starling {
namespace {
using namespace cuda;

static_assert(kSumScratchDoubles >= kMaxBlocks, "one partial sum a block");

__global__ void axpy_kernel(float a, const float* x, float* y, size_t count) {
  struct Element { float x, y; };
  each_element(
      count, [&](size_t i) { return Element{x[i], y[i]}; },
      [&](size_t i, const Element& at) { y[i] = __fadd_rn(at.y, __fmul_rn(a, at.x)); });
}

// The block's sum in thread 0, always added in the same order; 0 in the others. It ends without a barrier: a kernel
// that sums twice needs one in between.
__device__ double block_sum(double value) {
  SHARED_ARRAY(double, shared, kThreads);
  shared[threadIdx.x] = value;
  for (unsigned step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) shared[threadIdx.x] += shared[threadIdx.x + step];
  }
  return threadIdx.x == 0 ? shared[0] : 0;  // the others would read it while thread 0 still adds
}

__global__ void __launch_bounds__(kThreads, kAllAtOnce)
    square_sums_kernel(const float* x, size_t count, double* partial) {
  double sum = 0;
  each_element(
      count, [&](size_t i) { return x[i]; },
      [&](size_t, float of_float) {
        const double value = of_float;
        sum += value * value;
      });
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void add_partials_kernel(const double* partial, int partial_count, double* result) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < static_cast<unsigned>(partial_count); i += blockDim.x) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result = sum;
}

}  // namespace

void axpy_cuda(float a, const float* x, float* y, size_t count, void* stream) {
  if (count == 0) return;
  launch("axpy", axpy_kernel, blocks_for_elements(count), kThreads, 0, stream, a, x, y, count);
}

void squared_norm_cuda(const float* x, size_t count, double* scratch, double* result, void* stream) {
  const int blocks = count == 0 ? 0 : blocks_for(count);
  if (blocks > 0) launch("square_sums", square_sums_kernel, blocks, kThreads, 0, stream, x, count, scratch);
  launch("add_partials", add_partials_kernel, 1, kThreads, 0, stream, scratch, blocks, result);
}

}  // namespace starling
