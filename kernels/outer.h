// A step of a replica by the values v of an entry. Host memory.
// Shape: `count` elements each, any float alignment. Overlap: none.
// Determinism: the same bits on every instruction set: one rounding by each operation, never fused.
#pragma once

#include <cstddef>

namespace starling {

// Whether every y[i] + a * x[i] is finite, rounded as axpy() does. Changes nothing.
bool axpy_is_finite(float a, const float* x, const float* y, size_t count);

// v' = factor * v[i];  m' = momentum * m[i] + v';  r' = r[i] + rate * (v' + momentum * m')
struct NesterovStep {
  float factor = 1;
  float momentum = 0;
  float rate = 1;
};

// Whether every m' and r' is finite. Changes nothing.
bool nesterov_is_finite(const NesterovStep& step, const float* v, const float* m, const float* r, size_t count);

// m[i] = m';  r[i] = r'
void nesterov(const NesterovStep& step, const float* v, float* m, float* r, size_t count);

}  // namespace starling
