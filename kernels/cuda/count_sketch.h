// CUDA twins of kernels/count_sketch.h. All pointers are device pointers; `stream` is a cudaStream_t; a call returns
// once the work is put on it and allocates nothing. Same bits as the host's loops: each cell adds its elements in their
// order, so the blocks that meet in a cell are sorted first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/count_sketch.h"

namespace starling {

// What sketch_add_cuda() needs beside its output, for `count` elements; contents do not matter. Aligned to 8 bytes.
size_t sketch_scratch_bytes(const SketchShape& shape, size_t count);

// REQUIRES: at most 2^31 columns, rows * blocks below 2^30. Meant for tables that are not much smaller
// than the vector: its time grows with count * count / columns beyond count = 1000 columns.
void sketch_add_cuda(const SketchShape& shape, const float* x, size_t count, std::byte* scratch, float* table,
                     void* stream);

void sketch_estimate_cuda(const SketchShape& shape, const float* table, size_t first, size_t count, float* out,
                          void* stream);

}  // namespace starling
