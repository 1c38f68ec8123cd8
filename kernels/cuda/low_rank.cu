#include "kernels/cuda/low_rank.h"

#include "kernels/check.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/scan.cuh"

namespace starling {
namespace {
using namespace cuda;

constexpr unsigned kStrands = 16;  // running sums of a product, as on the host: element j goes to sum j mod 16
constexpr unsigned kVectors = 4;   // that a row is multiplied with while it is read once
constexpr unsigned kSteps = 32;    // elements of a row that a lane loads while it uses as many

// The products of a row with kCount vectors: half a warp, a lane a running sum of each. `row` is null where there is no
// row; both halves go on, since all lanes take part in the shuffles.
template <unsigned kCount>
__device__ void multiply_row(const MatrixSize& size, const float* row, const float* q, float* y) {
  const unsigned strand = threadIdx.x % kStrands;
  float running[kCount] = {};
  const size_t columns = row == nullptr ? 0 : size.columns;
  const auto add = [&](float value, size_t j) {
    for (unsigned k = 0; k < kCount; ++k) {
      running[k] = __fadd_rn(running[k], __fmul_rn(value, q[k * size.columns + j]));
    }
  };
  float next[kSteps];
  const auto has = [&](size_t j) { return j + (kSteps - 1) * kStrands < columns; };
  const auto load = [&](size_t j) {
    for (unsigned step = 0; step < kSteps; ++step) next[step] = has(j) ? row[j + step * kStrands] : 0.0f;
  };
  size_t j = strand;
  load(j);
  for (; has(j); j += kSteps * kStrands) {
    float values[kSteps];
    for (unsigned step = 0; step < kSteps; ++step) values[step] = next[step];
    load(j + kSteps * kStrands);
    for (unsigned step = 0; step < kSteps; ++step) add(values[step], j + step * kStrands);
  }
  for (; j < columns; j += kStrands) add(row[j], j);
  for (unsigned k = 0; k < kCount; ++k) {
    float sum = 0;
    for (int s = 0; s < static_cast<int>(kStrands); ++s) {
      sum = __fadd_rn(sum, __shfl_sync(0xFFFFFFFFu, running[k], s, kStrands));
    }
    if (strand == 0 && row != nullptr) y[k * size.rows] = sum;
  }
}

// Half a warp takes a row at a time.
__global__ void __launch_bounds__(kThreads, blocks_at_once(128))
    matrix_times_kernel(MatrixSize size, const float* x, const float* q, float* y) {
  for (size_t both = first_index() / 32 * 2; both < size.rows; both += index_stride() / kStrands) {
    const size_t i = both + threadIdx.x / kStrands % 2;
    const float* const row = i < size.rows ? x + i * size.columns : nullptr;
    for (size_t k = 0; k < size.rank; k += kVectors) {
      const float* const vectors = q + k * size.columns;
      float* const to = y + k * size.rows + i;
      switch (size.rank - k) {
        case 1: multiply_row<1>(size, row, vectors, to); break;
        case 2: multiply_row<2>(size, row, vectors, to); break;
        case 3: multiply_row<3>(size, row, vectors, to); break;
        default: multiply_row<kVectors>(size, row, vectors, to);
      }
    }
  }
}

constexpr unsigned kTileRows = kThreads > 512 ? 128 : 256;  // of 32 columns: 32 KiB
constexpr unsigned kTileLoads = kTileRows / kWarps;         // of each thread
static_assert(kTileRows % kWarps == 0 && (32 + kWarps) * kTileRows * sizeof(float) <= 48 << 10, "shared memory");

// A block takes 32 columns and as many vectors as it has warps at a time. The sum over the rows is one chain for each
// column and vector, which a lane adds up from shared memory; there are too few of them to keep the memory busy. So all
// warps load, each the rows of its number, and do so for the next tile while some add up this one.
__global__ void transposed_times_kernel(MatrixSize size, const float* x, const float* p, float* z) {
  SHARED_ARRAY(float, tile, kTileRows * 32);
  SHARED_ARRAY(float, factors, kWarps* kTileRows);  // of the vectors, for the rows of the tile
  const unsigned warp = threadIdx.x / 32, lane = lane_of();
  const size_t groups = (size.columns + 31) / 32, all = groups * ((size.rank + kWarps - 1) / kWarps);
  for (size_t unit = blockIdx.x; unit < all; unit += gridDim.x) {
    const size_t column = unit % groups * 32 + lane, k = unit / groups * kWarps + warp;
    float* const own = factors + warp * kTileRows;
    float next[kTileLoads], next_factors[kTileRows / 32], sum = 0;
    const auto load = [&](size_t first) {
      const auto left = static_cast<unsigned>(min(size.rows - min(first, size.rows), size_t{kTileRows}));
      const float* from = x + (first + warp) * size.columns + column;
      const bool has_column = column < size.columns, whole = left == kTileRows;
      for (unsigned l = 0; l < kTileLoads; ++l, from += kWarps * size.columns) {
        next[l] = has_column && (whole || l * kWarps + warp < left) ? *from : 0.0f;
      }
      const float* const factor = p + k * size.rows + first + lane;
      for (unsigned l = 0; l < kTileRows / 32; ++l) {
        next_factors[l] = k < size.rank && l * 32 + lane < left ? factor[l * 32] : 0.0f;
      }
    };
    load(0);
    for (size_t first = 0; first < size.rows; first += kTileRows) {
      for (unsigned l = 0; l < kTileLoads; ++l) tile[(l * kWarps + warp) * 32 + lane] = next[l];
      for (unsigned l = 0; l < kTileRows / 32; ++l) own[l * 32 + lane] = next_factors[l];
      __syncthreads();
      load(first + kTileRows);
      if (k < size.rank) {
        const auto here = static_cast<unsigned>(min(size.rows - first, size_t{kTileRows}));
        for (unsigned i = 0; i < here; ++i) sum = __fadd_rn(sum, __fmul_rn(own[i], tile[i * 32 + lane]));
      }
      __syncthreads();
    }
    if (k < size.rank && column < size.columns) z[k * size.columns + column] = sum;
  }
}

// How a block's threads lie on the matrix: beside each other in a row, as evenly as the columns allow, so that all have
// a column to themselves; and each takes kOuterRows rows.
constexpr unsigned kOuterRows = 8;
struct OuterGrid {
  explicit OuterGrid(const MatrixSize& size) {
    const size_t across = (size.columns + kThreads - 1) / kThreads;
    width = static_cast<uint32_t>((size.columns + across - 1) / across);
    height = kThreads / width;
    const size_t all = (size.rows + kOuterRows * height - 1) / (kOuterRows * height) * across;
    STARLING_CHECK(all <= UINT32_MAX);
    tiles = static_cast<uint32_t>(all);
    tiles_across = static_cast<uint32_t>(across);
    by_width = Divisor(width);
    by_across = Divisor(tiles_across);
  }
  uint32_t width = 0, height = 0;  // of a tile, in threads; a thread has rows that lie `height` apart
  uint32_t tiles = 0, tiles_across = 0;
  Divisor by_width, by_across;
};

// Adds to those of a thread's rows that there are; x begins at its first element, p and z at the factors of it.
template <class Has>
__device__ void add_outer_rows(const MatrixSize& size, uint32_t height, float coefficient, const float* p,
                               const float* z, float* x, const Has& has) {
  float values[kOuterRows], sums[kOuterRows];
  const size_t step = height * size.columns;
  for (unsigned r = 0; r < kOuterRows; ++r) values[r] = has(r) ? x[r * step] : 0.0f;
  for (unsigned r = 0; r < kOuterRows; ++r) sums[r] = has(r) ? __fmul_rn(p[r * height], z[0]) : 0.0f;
  NO_UNROLL for (size_t k = 1; k < size.rank; ++k) {
    p += size.rows;
    z += size.columns;
    const float factor = z[0];
    for (unsigned r = 0; r < kOuterRows; ++r) {
      if (has(r)) sums[r] = __fadd_rn(sums[r], __fmul_rn(p[r * height], factor));
    }
  }
  for (unsigned r = 0; r < kOuterRows; ++r) {
    if (has(r)) x[r * step] = __fadd_rn(values[r], __fmul_rn(coefficient, sums[r]));
  }
}

__global__ void add_outer_kernel(MatrixSize size, OuterGrid grid, float coefficient, const float* p, const float* z,
                                 float* x) {
  const uint32_t row = grid.by_width.divide(threadIdx.x), column = threadIdx.x - row * grid.width;
  if (row >= grid.height) return;
  for (size_t tile = blockIdx.x; tile < grid.tiles; tile += gridDim.x) {
    const uint32_t down = grid.by_across.divide(static_cast<uint32_t>(tile));
    const uint32_t across = static_cast<uint32_t>(tile) - down * grid.tiles_across;
    const size_t j = size_t{across} * grid.width + column, i = size_t{down} * (kOuterRows * grid.height) + row;
    if (j >= size.columns || i >= size.rows) continue;
    const auto left = static_cast<uint32_t>(min(size.rows - i, size_t{kOuterRows * kThreads}));
    const auto add = [&](const auto& has) {
      add_outer_rows(size, grid.height, coefficient, p + i, z + j, x + i * size.columns + j, has);
    };
    if (left > (kOuterRows - 1) * grid.height)
      add([](unsigned) { return true; });
    else
      add([&](unsigned r) { return r * grid.height < left; });
  }
}

}  // namespace

void matrix_times_cuda(const MatrixSize& size, const float* x, const float* q, float* y, void* stream) {
  if (size.rows * size.rank == 0) return;
  const size_t blocks = (kStrands * size.rows + kThreads - 1) / kThreads;
  launch("matrix_times", matrix_times_kernel, blocks_for_tiles(blocks), kThreads, 0, stream, size, x, q, y);
}

void transposed_times_cuda(const MatrixSize& size, const float* x, const float* p, float* z, void* stream) {
  if (size.columns * size.rank == 0) return;
  const size_t units = (size.columns + 31) / 32 * ((size.rank + kWarps - 1) / kWarps);
  launch("transposed_times", transposed_times_kernel, blocks_for_tiles(units), kThreads, 0, stream, size, x, p, z);
}

void add_outer_cuda(const MatrixSize& size, float coefficient, const float* p, const float* z, float* x, void* stream) {
  if (size.rows * size.columns * size.rank == 0) return;
  const OuterGrid grid(size);
  launch("add_outer", add_outer_kernel, blocks_for_tiles(grid.tiles), kThreads, 0, stream, size, grid, coefficient, p,
         z, x);
}

}  // namespace starling
