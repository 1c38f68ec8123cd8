// A count sketch of a vector: a small table from which its largest elements can be estimated, and which adds up: the
// table of a sum is the sum of the tables. Charikar, Chen, Farach-Colton 2002, "Finding frequent items in data
// streams". Host memory.
//
// Row r, block b (SketchShape::block() elements in a row), element p of it: cell (offset + p) mod columns, with offset
// and sign drawn by a hash of (seed, r, b). Elements of one block never share a cell; elements of two blocks share one
// with probability 1 / columns, with signs that agree as often as not. So an estimate's expectation is the element, and
// its variance at most |x|^2 / columns, as with a hash for each element; but blocks are added and read as they lie.
// What the length of a block changes is only how many neighbors share cells at the same time.
//
// Determinism: the same bits on every instruction set: each cell adds its elements in their order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling {

inline constexpr size_t kSketchBlock = 256;  // of a small table, and what estimates may begin at

struct SketchShape {
  uint32_t rows = 3;     // 1, 3 or 5: an estimate is the median over them
  uint32_t columns = 0;  // at least kSketchBlock
  uint64_t seed = 0;     // tables add up only if all three are equal
  size_t cells() const { return size_t{rows} * columns; }
  // A large table leaves the nearer caches, where reading and writing it in longer runs is faster. A small one keeps
  // short blocks, so that it has many more places than a block has elements.
  constexpr size_t block() const { return columns < 16 * kSketchBlock ? kSketchBlock : 4 * kSketchBlock; }
  bool operator==(const SketchShape&) const = default;
};

// table += the sketch of x. The table holds rows * columns floats, row by row; zeros: an empty one. A NaN or an
// infinity in x, or a sum beyond the range of a float, stays visible in the table.
void sketch_add(const SketchShape& shape, const float* x, size_t count, float* table);

// out[i] = the estimate of element first + i. REQUIRES: first is a multiple of kSketchBlock; the table is finite.
void sketch_estimate(const SketchShape& shape, const float* table, size_t first, size_t count, float* out);

}  // namespace starling
