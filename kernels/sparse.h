// Loops over some elements of a vector, named by their indices: u32 little-endian, any alignment. Host memory.
// Scalar: they wait for cache lines of the vector, not for arithmetic.
// Determinism: one multiply, one add for each element; indices ascend, so no element is met twice.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling {

// Whether the indices ascend strictly and lie below `limit`. The other loops require it.
bool indices_ascend_below(const std::byte* indices, size_t count, size_t limit);

// How many of the indices lie below `limit`.
size_t indices_below(const std::byte* indices, size_t count, size_t limit);

// out[j] = x[index j].
void gather(const float* x, const std::byte* indices, size_t count, float* out);

// out[index j - base] = values[j].
void scatter(const std::byte* indices, const float* values, size_t count, size_t base, float* out);

// y[index j] += a * values[j].
void scatter_axpy(float a, const std::byte* indices, const float* values, size_t count, float* y);

}  // namespace starling
