#include "kernels/cuda/low_rank.h"

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"

namespace starling {
namespace {
using namespace cuda;

constexpr unsigned kStrands = 16;   // running sums of a product, as on the host: element j goes to sum j mod 16

// Half a warp takes a row and a vector at a time, a lane a running sum. Both halves go on while one has work, since all
// lanes take part in the shuffles.
__global__ void matrix_times_kernel(MatrixSize size, const float* x, const float* q, float* y) {
  const size_t products = size.rows * size.rank;
  const unsigned strand = threadIdx.x % kStrands;
  for (size_t both = first_index() / 32 * 2; both < products; both += index_stride() / kStrands) {
    const size_t product = both + threadIdx.x / kStrands % 2;
    float running = 0;
    if (product < products) {
      const float* const row = x + product % size.rows * size.columns;
      const float* const vector = q + product / size.rows * size.columns;
      for (size_t j = strand; j < size.columns; j += kStrands) {
        running = __fadd_rn(running, __fmul_rn(row[j], vector[j]));
      }
    }
    float sum = 0;
    for (int s = 0; s < static_cast<int>(kStrands); ++s) {
      sum = __fadd_rn(sum, __shfl_sync(0xFFFFFFFFu, running, s, kStrands));
    }
    if (strand == 0 && product < products) y[product] = sum;
  }
}

// A thread takes a column and a vector at a time.
__global__ void transposed_times_kernel(MatrixSize size, const float* x, const float* p, float* z) {
  for (size_t at = first_index(); at < size.columns * size.rank; at += index_stride()) {
    const float* const column = x + at % size.columns;
    const float* const vector = p + at / size.columns * size.rows;
    float sum = 0;
    for (size_t i = 0; i < size.rows; ++i) sum = __fadd_rn(sum, __fmul_rn(vector[i], column[i * size.columns]));
    z[at] = sum;
  }
}

// Row and column go on with the element: a division for each would take longer than its bytes.
__global__ void add_outer_kernel(MatrixSize size, float coefficient, const float* p, const float* z, float* x) {
  const size_t stride = index_stride(), rows = stride / size.columns, columns = stride % size.columns;
  size_t i = first_index() / size.columns, j = first_index() % size.columns;
  for (size_t at = first_index(); at < size.rows * size.columns; at += stride) {
    float sum = __fmul_rn(p[i], z[j]);
    for (size_t k = 1; k < size.rank; ++k) {
      sum = __fadd_rn(sum, __fmul_rn(p[k * size.rows + i], z[k * size.columns + j]));
    }
    x[at] = __fadd_rn(x[at], __fmul_rn(coefficient, sum));
    i += rows;
    j += columns;
    if (j >= size.columns) {
      j -= size.columns;
      ++i;
    }
  }
}

}  // namespace

void matrix_times_cuda(const MatrixSize& size, const float* x, const float* q, float* y, void* stream) {
  const size_t products = size.rows * size.rank;
  if (products == 0) return;
  launch("matrix_times", matrix_times_kernel, blocks_for(kStrands * products), kThreads, 0, stream, size, x, q, y);
}

void transposed_times_cuda(const MatrixSize& size, const float* x, const float* p, float* z, void* stream) {
  const size_t sums = size.columns * size.rank;
  if (sums == 0) return;
  launch("transposed_times", transposed_times_kernel, blocks_for(sums), kThreads, 0, stream, size, x, p, z);
}

void add_outer_cuda(const MatrixSize& size, float coefficient, const float* p, const float* z, float* x, void* stream) {
  const size_t count = size.rank == 0 ? 0 : size.rows * size.columns;
  if (count == 0) return;
  launch("add_outer", add_outer_kernel, blocks_for(count), kThreads, 0, stream, size, coefficient, p, z, x);
}

}  // namespace starling
