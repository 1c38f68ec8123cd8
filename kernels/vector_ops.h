// Plain loops over float vectors in host memory. Twins with the same names and a `_cuda` tail: kernels/cuda/.
// Shape: `count` elements, any count, any float alignment. Overlap: x and y the same array or apart, never shifted.
// Determinism: the same bits on every instruction set. Sums run in double in a fixed order.
#pragma once

#include <cstddef>

namespace starling {

// y[i] += a * x[i]: one rounding by the multiply, one by the add, never fused.
void axpy(float a, const float* x, float* y, size_t count);

// Sum of x[i]^2.
double squared_norm(const float* x, size_t count);

// Sum of (y[i] - x[i])^2, the difference rounded to float first.
double squared_distance(const float* x, const float* y, size_t count);

// How many elements are a NaN or an infinity.
size_t count_nonfinite(const float* x, size_t count);

// The largest |x[i]|, 0 for none. An infinity beats every number and a NaN beats that.
float max_abs(const float* x, size_t count);

}  // namespace starling
