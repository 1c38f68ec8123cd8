#include "kernels/cuda/vector_ops.h"

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"

namespace starling {
namespace {
using namespace cuda;

static_assert(kSumScratchDoubles >= kMaxBlocks, "one partial sum a block");

__global__ void axpy_kernel(float a, const float* x, float* y, size_t count) {
  for (size_t i = first_index(); i < count; i += index_stride()) y[i] = __fadd_rn(y[i], __fmul_rn(a, x[i]));
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
  return threadIdx.x == 0 ? shared[0] : 0;   // the others would read it while thread 0 still adds
}

// Sum of (y - x)^2, or of x^2 where y is null.
__global__ void square_sums_kernel(const float* x, const float* y, size_t count, double* partial) {
  double sum = 0;
  for (size_t i = first_index(); i < count; i += index_stride()) {
    const double value = y == nullptr ? x[i] : __fsub_rn(y[i], x[i]);
    sum += value * value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void add_partials_kernel(const double* partial, int partial_count, double* result) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < static_cast<unsigned>(partial_count); i += blockDim.x) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result = sum;
}

__global__ void count_nonfinite_kernel(const float* x, size_t count, unsigned long long* result) {
  uint32_t found = 0;
  for (size_t i = first_index(); i < count; i += index_stride()) found += magnitude_bits(x[i]) > 0x7F7FFFFFu;
  found = warp_sum(found);
  if (first_in_warp() && found != 0) atomicAdd(result, static_cast<unsigned long long>(found));
}

void launch_square_sums(const float* x, const float* y, size_t count, double* scratch, double* result, void* stream) {
  const int blocks = blocks_for(count);
  if (blocks > 0) launch("square_sums", square_sums_kernel, blocks, kThreads, 0, stream, x, y, count, scratch);
  launch("add_partials", add_partials_kernel, 1, kThreads, 0, stream, scratch, blocks, result);
}

}  // namespace

void axpy_cuda(float a, const float* x, float* y, size_t count, void* stream) {
  if (count == 0) return;
  launch("axpy", axpy_kernel, blocks_for(count), kThreads, 0, stream, a, x, y, count);
}

void squared_norm_cuda(const float* x, size_t count, double* scratch, double* result, void* stream) {
  launch_square_sums(x, nullptr, count, scratch, result, stream);
}

void squared_distance_cuda(const float* x, const float* y, size_t count, double* scratch, double* result,
                           void* stream) {
  launch_square_sums(x, y, count, scratch, result, stream);
}

void count_nonfinite_cuda(const float* x, size_t count, uint64_t* result, void* stream) {
  if (count == 0) return;
  static_assert(sizeof(uint64_t) == sizeof(unsigned long long));
  launch("count_nonfinite", count_nonfinite_kernel, blocks_for(count), kThreads, 0, stream, x, count,
         reinterpret_cast<unsigned long long*>(result));
}

}  // namespace starling
