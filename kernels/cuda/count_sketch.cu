#include "kernels/cuda/count_sketch.h"

#include "kernels/check.h"
#include "kernels/cuda/scan.cuh"
#include "kernels/sketch_place.h"

// A row's columns are cut into spans as long as a block. The blocks that reach into a span are listed, in order; then a
// warp goes through the list of its cells and adds to them.
namespace starling {
namespace {
using namespace cuda;

// Where the lists lie in the scratch.
struct Lists {
  Lists(const SketchShape& of, size_t element_count, std::byte* scratch)
      : shape(of),
        count(element_count),
        length(of.block()),
        blocks((count + length - 1) / length),
        spans((of.columns + length - 1) / length),
        parts(of.rows * spans * kParts),
        ends(reinterpret_cast<uint32_t*>(scratch)),
        found(ends + parts),
        sorted(found + kReach * of.rows * blocks) {}

  static constexpr size_t kReach = 3;  // spans that a block reaches into at most: the last one may be short
  // A list is made in parts, each of blocks that lie side by side: fewer to sort, and fewer threads that count in one.
  static constexpr size_t kParts = 8;

  SketchShape shape;
  size_t count, length, blocks, spans;  // length of a block; spans of a row
  size_t parts;                         // of all lists
  __device__ uint32_t begin(size_t part) const { return part == 0 ? 0 : ends[part - 1]; }  // once all are listed

  uint32_t* ends;   // of each part, in `found` and `sorted`; row by row, span by span
  uint32_t* found;  // blocks, in the order in which threads came
  uint32_t* sorted;
};

// Calls use(part, block) for each block of each row and each span that it reaches into.
template <class Use>
__device__ void each_place(const Lists& lists, const Use& use) {
  const size_t all = lists.shape.rows * lists.blocks;
  for (size_t i = first_index(); i < all; i += index_stride()) {
    const size_t row = i / lists.blocks, block = i % lists.blocks;
    const size_t begin = sketch_place(lists.shape, row, block).offset, last = begin + lists.length - 1;
    const size_t first = begin / lists.length, columns = lists.shape.columns;
    const auto use_span = [&](size_t span) {
      use((row * lists.spans + span) * Lists::kParts + block * Lists::kParts / lists.blocks,
          static_cast<uint32_t>(block));
    };
    for (size_t span = first; span <= min(last, columns - 1) / lists.length; ++span) use_span(span);
    if (last >= columns && first > 0) use_span(0);
  }
}

__global__ void count_blocks_kernel(Lists lists) {
  each_place(lists, [&](size_t part, uint32_t) { atomicAdd(&lists.ends[part], 1u); });
}

// One block. Each part is empty then: it ends where it begins.
__global__ void add_up_parts_kernel(Lists lists) { add_up(lists.ends, lists.parts); }

__global__ void list_blocks_kernel(Lists lists) {
  each_place(lists, [&](size_t part, uint32_t block) { lists.found[atomicAdd(&lists.ends[part], 1u)] = block; });
}

// A warp takes a part at a time. A block's place is how many of the part are smaller.
__global__ void sort_lists_kernel(Lists lists) {
  for (size_t part = warp_of_grid(); part < lists.parts; part += index_stride() / 32) {
    const uint32_t begin = lists.begin(part), end = lists.ends[part];
    for (uint32_t i = begin + lane_of(); i < end; i += 32) {
      const uint32_t block = lists.found[i];
      uint32_t smaller = 0;
      for (uint32_t j = begin; j < end; ++j) smaller += lists.found[j] < block;
      lists.sorted[begin + smaller] = block;
    }
  }
}

// A column past the last one begins anew. REQUIRES: less than twice the columns.
__device__ inline uint32_t around(uint32_t column, uint32_t columns) { return min(column, column - columns); }

constexpr unsigned kCells = 8;            // of a lane
constexpr unsigned kPiece = 32 * kCells;  // neighboring cells of a warp
constexpr unsigned kBlocksOfLoad = 2;     // whose elements a lane loads before it adds one
static_assert(kSketchBlock % kPiece == 0, "a piece lies in one span");

// A warp takes a piece of a span at a time. The pieces of a span lie side by side, and so do the same spans of the
// rows: their warps then read the same part of x at about the same time. Each lane looks at a block of the list; those
// that reach into the piece are then added, in order.
__global__ void __launch_bounds__(kThreads, blocks_at_once(48)) add_kernel(Lists lists, const float* x, float* table) {
  const uint32_t columns = lists.shape.columns, rows = lists.shape.rows, lane = lane_of();
  const auto length = static_cast<uint32_t>(lists.length);
  const uint32_t pieces = length / kPiece;
  const auto all = static_cast<uint32_t>(rows * lists.spans * pieces);
  const auto warps = static_cast<uint32_t>(index_stride() / 32);
  for (auto i = static_cast<uint32_t>(warp_of_grid()); i < all; i += warps) {
    const uint32_t span = i / pieces / rows, row = i / pieces - span * rows;
    const uint32_t first = span * length + i % pieces * kPiece;
    if (first >= columns) continue;  // the last span may be short
    float* const to = table + size_t{row} * columns + first + lane;
    float cells[kCells];
    for (unsigned c = 0; c < kCells; ++c) cells[c] = first + lane + 32 * c < columns ? to[32 * c] : 0.0f;
    const size_t part = (row * lists.spans + span) * Lists::kParts;  // the first of its list
    const uint32_t end = lists.ends[part + Lists::kParts - 1];
    for (uint32_t base = lists.begin(part); base < end; base += 32) {
      const bool listed = base + lane < end;
      const uint32_t own = listed ? lists.sorted[base + lane] : 0;
      const SketchPlace place = sketch_place(lists.shape, row, own);
      const auto own_offset = static_cast<uint32_t>(place.offset);
      const uint32_t in_block = first - own_offset + (first < own_offset ? columns : 0);
      const bool reaches = listed && (in_block < length || own_offset - first < kPiece);
      const size_t begin = size_t{own} * length;
      const auto own_from = reinterpret_cast<uintptr_t>(x + begin);  // handed on, to be added up once for all cells
      const auto own_here = static_cast<uint32_t>(min(lists.count - begin, size_t{length}));
      for (uint32_t left = __ballot_sync(0xFFFFFFFFu, reaches); left != 0;) {
        float values[kBlocksOfLoad][kCells];
        for (unsigned b = 0; b < kBlocksOfLoad; ++b) {
          const int from = left == 0 ? 0 : __ffs(static_cast<int>(left)) - 1;
          const auto* const of_block = reinterpret_cast<const float*>(__shfl_sync(0xFFFFFFFFu, own_from, from));
          const uint32_t at_first = __shfl_sync(0xFFFFFFFFu, in_block, from) + lane;
          const uint32_t flip = __shfl_sync(0xFFFFFFFFu, place.flip, from);
          const uint32_t block_here = __shfl_sync(0xFFFFFFFFu, own_here, from);
          const uint32_t here = left == 0 ? 0 : block_here;
          left &= left - 1;
          for (unsigned c = 0; c < kCells; ++c) {
            const uint32_t at = around(at_first + 32 * c, columns);
            // A -0 changes no sum.
            values[b][c] = __uint_as_float(at < here ? __float_as_uint(of_block[at]) ^ flip : 0x80000000u);
          }
        }
        for (const auto& of_block : values) {
          for (unsigned c = 0; c < kCells; ++c) cells[c] = __fadd_rn(cells[c], of_block[c]);
        }
      }
    }
    for (unsigned c = 0; c < kCells; ++c) {
      if (first + lane + 32 * c < columns) to[32 * c] = cells[c];
    }
  }
}

// As x86 has them, which tells -0 from 0 by the order.
__device__ inline float lesser(float a, float b) { return a < b ? a : b; }
__device__ inline float larger(float a, float b) { return a > b ? a : b; }
__device__ inline float middle(float a, float b, float c) { return larger(lesser(a, b), lesser(larger(a, b), c)); }

template <unsigned kRows>
__device__ float median(const float (&v)[kRows]) {
  if constexpr (kRows == 1) {
    return v[0];
  } else if constexpr (kRows == 3) {
    return middle(v[0], v[1], v[2]);
  } else {
    const float low = larger(lesser(v[0], v[1]), lesser(v[2], v[3]));
    const float high = lesser(larger(v[0], v[1]), larger(v[2], v[3]));
    return middle(low, high, v[4]);
  }
}

constexpr unsigned kElements = 4;          // of a lane
constexpr unsigned kRun = 32 * kElements;  // neighboring elements of a warp
static_assert(kSketchBlock % kRun == 0, "a run lies in one block");

// A warp takes a run at a time, and finds its place in each row once.
template <unsigned kRows>
__global__ void estimate_kernel(SketchShape shape, const float* table, size_t first, size_t count, float* out) {
  const uint32_t columns = shape.columns, lane = lane_of();
  const size_t length = shape.block();
  const int length_bits = __ffs(static_cast<int>(length)) - 1;
  for (size_t base = warp_of_grid() * kRun; base < count; base += index_stride() / 32 * kRun) {
    const SketchPlace own = sketch_place(shape, lane % kRows, (first + base) >> length_bits);
    const auto in_block = static_cast<uint32_t>((first + base) & (length - 1)) + lane;
    const auto here = static_cast<uint32_t>(min(count - base, size_t{kRun}));
    float values[kElements][kRows];
    for (unsigned row = 0; row < kRows; ++row) {
      const uint32_t offset = __shfl_sync(0xFFFFFFFFu, static_cast<uint32_t>(own.offset), static_cast<int>(row));
      const uint32_t flip = __shfl_sync(0xFFFFFFFFu, own.flip, static_cast<int>(row));
      const float* const of_row = table + size_t{row} * columns;
      for (unsigned e = 0; e < kElements; ++e) {
        const uint32_t column = around(offset + in_block + 32 * e, columns);
        const uint32_t bits = lane + 32 * e < here ? __float_as_uint(of_row[column]) : 0;
        values[e][row] = __uint_as_float(bits ^ flip);
      }
    }
    for (unsigned e = 0; e < kElements; ++e) {
      if (lane + 32 * e < here) out[base + 32 * e + lane] = median(values[e]);
    }
  }
}

void check_shape(const SketchShape& shape) {
  STARLING_CHECK(shape.rows == 1 || shape.rows == 3 || shape.rows == 5);
  STARLING_CHECK(shape.columns >= kSketchBlock && shape.columns <= 1u << 31);
}

}  // namespace

size_t sketch_scratch_bytes(const SketchShape& shape, size_t count) {
  const Lists lists(shape, count, nullptr);
  return (lists.parts + 2 * Lists::kReach * shape.rows * lists.blocks) * sizeof(uint32_t);
}

void sketch_add_cuda(const SketchShape& shape, const float* x, size_t count, std::byte* scratch, float* table,
                     void* stream) {
  check_shape(shape);
  if (count == 0) return;
  const Lists lists(shape, count, scratch);
  const size_t places = shape.rows * lists.blocks;
  STARLING_CHECK(lists.parts <= UINT32_MAX && places <= UINT32_MAX / Lists::kReach);
  zero_async(lists.ends, lists.parts * sizeof(uint32_t), stream);
  launch("sketch_count_blocks", count_blocks_kernel, blocks_for_elements(places, 1), kThreads, 0, stream, lists);
  launch("sketch_add_up_parts", add_up_parts_kernel, 1, kThreads, 0, stream, lists);
  launch("sketch_list_blocks", list_blocks_kernel, blocks_for_elements(places, 1), kThreads, 0, stream, lists);
  launch("sketch_sort_lists", sort_lists_kernel, blocks_for_warps(lists.parts), kThreads, 0, stream, lists);
  const size_t pieces = shape.rows * lists.spans * (lists.length / kPiece);
  launch("sketch_add", add_kernel, blocks_for_warps(pieces), kThreads, 0, stream, lists, x, table);
}

void sketch_estimate_cuda(const SketchShape& shape, const float* table, size_t first, size_t count, float* out,
                          void* stream) {
  check_shape(shape);
  STARLING_CHECK(first % kSketchBlock == 0);
  if (count == 0) return;
  const int blocks = blocks_for_warps((count + kRun - 1) / kRun);
  switch (shape.rows) {
    case 1:
      return launch("sketch_estimate", estimate_kernel<1>, blocks, kThreads, 0, stream, shape, table, first, count,
                    out);
    case 3:
      return launch("sketch_estimate", estimate_kernel<3>, blocks, kThreads, 0, stream, shape, table, first, count,
                    out);
    default:
      return launch("sketch_estimate", estimate_kernel<5>, blocks, kThreads, 0, stream, shape, table, first, count,
                    out);
  }
}

}  // namespace starling
