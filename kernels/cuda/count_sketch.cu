#include "kernels/cuda/count_sketch.h"

#include "kernels/check.h"
#include "kernels/cuda/scan.cuh"
#include "kernels/sketch_place.h"

// A row's columns are cut into spans as long as a block. The blocks whose first element lies in a span are listed, in
// order; then a cell finds all that it adds in the lists of its own span and of those before it, from which blocks
// reach into it.
namespace starling {
namespace {
using namespace cuda;

// Where the lists lie in the scratch.
struct Lists {
  Lists(const SketchShape& of, size_t element_count, std::byte* scratch)
      : shape(of), count(element_count), length(of.block()), blocks((count + length - 1) / length),
        spans((of.columns + length - 1) / length), begins(reinterpret_cast<uint32_t*>(scratch)),
        ends(begins + of.rows * spans), found(ends + of.rows * spans), sorted(found + of.rows * blocks) {}

  SketchShape shape;
  size_t count, length, blocks, spans;   // length of a block; spans of a row
  uint32_t* begins;              // of the list of each span, in `found` and `sorted`; row by row
  uint32_t* ends;
  uint32_t* found;               // blocks, in the order in which threads came
  uint32_t* sorted;
};

// Calls use(span, block) for each block of each row; spans are counted through all rows.
template <class Use>
__device__ void each_place(const Lists& lists, const Use& use) {
  const size_t all = lists.shape.rows * lists.blocks;
  for (size_t i = first_index(); i < all; i += index_stride()) {
    const size_t row = i / lists.blocks, block = i % lists.blocks;
    use(row * lists.spans + sketch_place(lists.shape, row, block).offset / lists.length, static_cast<uint32_t>(block));
  }
}

__global__ void count_blocks_kernel(Lists lists) {
  each_place(lists, [&](size_t span, uint32_t) { atomicAdd(&lists.begins[span], 1u); });
}

// One block.
__global__ void add_up_spans_kernel(Lists lists) {
  add_up_warps(lists.begins, static_cast<unsigned>(lists.shape.rows * lists.spans));
}

// Each list begins empty at its place.
__global__ void begin_lists_kernel(Lists lists) {
  for (size_t i = first_index(); i < lists.shape.rows * lists.spans; i += index_stride()) {
    lists.ends[i] = lists.begins[i];
  }
}

__global__ void list_blocks_kernel(Lists lists) {
  each_place(lists, [&](size_t span, uint32_t block) { lists.found[atomicAdd(&lists.ends[span], 1u)] = block; });
}

// A warp takes a list at a time. A block's place is how many of the list are smaller.
__global__ void sort_lists_kernel(Lists lists) {
  for (size_t span = warp_of_grid(); span < lists.shape.rows * lists.spans; span += index_stride() / 32) {
    const uint32_t begin = lists.begins[span], end = lists.ends[span];
    for (uint32_t i = begin + lane_of(); i < end; i += 32) {
      uint32_t smaller = 0;
      for (uint32_t j = begin; j < end; ++j) smaller += lists.found[j] < lists.found[i];
      lists.sorted[begin + smaller] = lists.found[i];
    }
  }
}

// The lists of up to three spans as one, in the order of blocks.
class Merged {
 public:
  __device__ explicit Merged(const Lists& lists) : lists_(lists) {}
  __device__ void take(size_t span) {
    next_[taken_] = lists_.begins[span];
    ends_[taken_] = lists_.ends[span];
    ++taken_;
  }
  // The next block, or UINT32_MAX.
  __device__ uint32_t pop() {
    uint32_t least = UINT32_MAX;
    unsigned from = 0;
    for (unsigned i = 0; i < taken_; ++i) {
      if (next_[i] == ends_[i] || lists_.sorted[next_[i]] >= least) continue;
      least = lists_.sorted[next_[i]];
      from = i;
    }
    if (least != UINT32_MAX) ++next_[from];
    return least;
  }

 private:
  const Lists& lists_;
  unsigned taken_ = 0;
  uint32_t next_[3], ends_[3];
};

// A block takes a span at a time.
__global__ void add_kernel(Lists lists, const float* x, float* table) {
  const size_t columns = lists.shape.columns;
  for (size_t i = blockIdx.x; i < lists.shape.rows * lists.spans; i += gridDim.x) {
    const size_t row = i / lists.spans, span = i % lists.spans;
    for (size_t column = span * lists.length + threadIdx.x; column < min((span + 1) * lists.length, columns);
         column += kThreads) {
      Merged blocks(lists);
      blocks.take(i);
      // Blocks of the span before reach into this one; into the first, those of the last two, which may be short.
      if (lists.spans > 1) blocks.take(span > 0 ? i - 1 : i + lists.spans - 1);
      if (lists.spans > 2 && span == 0) blocks.take(i + lists.spans - 2);
      float cell = table[row * columns + column];
      for (uint32_t block = blocks.pop(); block != UINT32_MAX; block = blocks.pop()) {
        const SketchPlace place = sketch_place(lists.shape, row, block);
        const size_t in_block = column >= place.offset ? column - place.offset : column + columns - place.offset;
        const size_t element = size_t{block} * lists.length + in_block;
        if (in_block >= lists.length || element >= lists.count) continue;
        cell = __fadd_rn(cell, __uint_as_float(__float_as_uint(x[element]) ^ place.flip));
      }
      table[row * columns + column] = cell;
    }
  }
}

// As x86 has them, which tells -0 from 0 by the order.
__device__ inline float lesser(float a, float b) { return a < b ? a : b; }
__device__ inline float larger(float a, float b) { return a > b ? a : b; }
__device__ inline float middle(float a, float b, float c) { return larger(lesser(a, b), lesser(larger(a, b), c)); }

template <unsigned kRows>
__global__ void estimate_kernel(SketchShape shape, const float* table, size_t first, size_t count, float* out) {
  for (size_t i = first_index(); i < count; i += index_stride()) {
    const size_t element = first + i;
    float v[kRows];
    for (unsigned row = 0; row < kRows; ++row) {
      const SketchPlace place = sketch_place(shape, row, element / shape.block());
      size_t column = place.offset + element % shape.block();
      if (column >= shape.columns) column -= shape.columns;
      v[row] = __uint_as_float(__float_as_uint(table[size_t{row} * shape.columns + column]) ^ place.flip);
    }
    if constexpr (kRows == 1) {
      out[i] = v[0];
    } else if constexpr (kRows == 3) {
      out[i] = middle(v[0], v[1], v[2]);
    } else {
      const float low = larger(lesser(v[0], v[1]), lesser(v[2], v[3]));
      const float high = lesser(larger(v[0], v[1]), larger(v[2], v[3]));
      out[i] = middle(low, high, v[4]);
    }
  }
}

void check_shape(const SketchShape& shape) {
  STARLING_CHECK((shape.rows == 1 || shape.rows == 3 || shape.rows == 5) && shape.columns >= kSketchBlock);
}

}  // namespace

size_t sketch_scratch_bytes(const SketchShape& shape, size_t count) {
  const Lists lists(shape, count, nullptr);
  return 2 * shape.rows * (lists.spans + lists.blocks) * sizeof(uint32_t);
}

void sketch_add_cuda(const SketchShape& shape, const float* x, size_t count, std::byte* scratch, float* table,
                     void* stream) {
  check_shape(shape);
  if (count == 0) return;
  const Lists lists(shape, count, scratch);
  const size_t spans = shape.rows * lists.spans, places = shape.rows * lists.blocks;
  STARLING_CHECK(spans < UINT32_MAX && places < UINT32_MAX);
  zero_async(lists.begins, spans * sizeof(uint32_t), stream);
  launch("sketch_count_blocks", count_blocks_kernel, blocks_for(places), kThreads, 0, stream, lists);
  launch("sketch_add_up_spans", add_up_spans_kernel, 1, kThreads, 0, stream, lists);
  launch("sketch_begin_lists", begin_lists_kernel, blocks_for(spans), kThreads, 0, stream, lists);
  launch("sketch_list_blocks", list_blocks_kernel, blocks_for(places), kThreads, 0, stream, lists);
  launch("sketch_sort_lists", sort_lists_kernel, blocks_for(32 * spans), kThreads, 0, stream, lists);
  launch("sketch_add", add_kernel, blocks_for(kThreads * spans), kThreads, 0, stream, lists, x, table);
}

void sketch_estimate_cuda(const SketchShape& shape, const float* table, size_t first, size_t count, float* out,
                          void* stream) {
  check_shape(shape);
  STARLING_CHECK(first % kSketchBlock == 0);
  if (count == 0) return;
  const int blocks = blocks_for(count);
  switch (shape.rows) {
    case 1: return launch("sketch_estimate", estimate_kernel<1>, blocks, kThreads, 0, stream, shape, table, first,
                          count, out);
    case 3: return launch("sketch_estimate", estimate_kernel<3>, blocks, kThreads, 0, stream, shape, table, first,
                          count, out);
    default: return launch("sketch_estimate", estimate_kernel<5>, blocks, kThreads, 0, stream, shape, table, first,
                           count, out);
  }
}

}  // namespace starling
