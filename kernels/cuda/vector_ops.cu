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

// Sum of (y - x)^2, or of x^2.
template <bool kOfDifference>
__global__ void __launch_bounds__(kThreads, kAllAtOnce)
    square_sums_kernel(const float* x, const float* y, size_t count, double* partial) {
  double sum = 0;
  each_element(
      count, [&](size_t i) { return kOfDifference ? __fsub_rn(y[i], x[i]) : x[i]; },
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

__global__ void __launch_bounds__(kThreads, kAllAtOnce)
    count_nonfinite_kernel(const float* x, size_t count, unsigned long long* result) {
  uint32_t found = 0;
  each_element<2 * kLoads>(
      count, [&](size_t i) { return x[i]; },
      [&](size_t, float value) { found += magnitude_bits(value) > 0x7F7FFFFFu; });
  found = warp_sum(found);
  if (first_in_warp() && found != 0) atomicAdd(result, static_cast<unsigned long long>(found));
}

template <bool kOfDifference>
void launch_square_sums(const float* x, const float* y, size_t count, double* scratch, double* result, void* stream) {
  const int blocks = count == 0 ? 0 : blocks_for(count);
  if (blocks > 0) {
    launch("square_sums", square_sums_kernel<kOfDifference>, blocks, kThreads, 0, stream, x, y, count, scratch);
  }
  launch("add_partials", add_partials_kernel, 1, kThreads, 0, stream, scratch, blocks, result);
}

}  // namespace

void axpy_cuda(float a, const float* x, float* y, size_t count, void* stream) {
  if (count == 0) return;
  launch("axpy", axpy_kernel, blocks_for_elements(count), kThreads, 0, stream, a, x, y, count);
}

void squared_norm_cuda(const float* x, size_t count, double* scratch, double* result, void* stream) {
  launch_square_sums<false>(x, nullptr, count, scratch, result, stream);
}

void squared_distance_cuda(const float* x, const float* y, size_t count, double* scratch, double* result,
                           void* stream) {
  launch_square_sums<true>(x, y, count, scratch, result, stream);
}

void count_nonfinite_cuda(const float* x, size_t count, uint64_t* result, void* stream) {
  if (count == 0) return;
  static_assert(sizeof(uint64_t) == sizeof(unsigned long long));
  launch("count_nonfinite", count_nonfinite_kernel, blocks_for(count), kThreads, 0, stream, x, count,
         reinterpret_cast<unsigned long long*>(result));
}

}  // namespace starling
