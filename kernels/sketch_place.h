// Where kernels/count_sketch.h puts a block in a row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/count_sketch.h"
#include "kernels/split_mix.h"

namespace starling {

inline constexpr size_t kSketchRowsMax = 5;

struct SketchPlace {
  size_t offset = 0;  // the column of the block's first element
  uint32_t flip = 0;  // of the sign bits
};

constexpr SketchPlace sketch_place(const SketchShape& shape, size_t row, size_t block) {
  const uint64_t hash = split_mix(shape.seed + (uint64_t{block} * kSketchRowsMax + row + 1) * kSplitMixStep);
  return {static_cast<size_t>((hash >> 32) * shape.columns >> 32), static_cast<uint32_t>(hash & 1) << 31};
}

}  // namespace starling
