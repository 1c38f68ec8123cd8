// Products of a matrix with a few vectors, and their outer product. The matrix x holds `rows` rows of `columns` floats,
// one row after the other. Likewise q and z hold `rank` vectors of `columns` floats, p and y as many of `rows` floats.
// Host memory, any float alignment. Overlap: none.
// Determinism: the same bits on every instruction set: one rounding by each operation, never fused, sums in one order.
#pragma once

#include <cstddef>

namespace starling {

struct MatrixSize { size_t rows = 0, columns = 0, rank = 0; };

// y[k][i] = sum over j of x[i][j] * q[k][j]
void matrix_times(const MatrixSize& size, const float* x, const float* q, float* y);

// z[k][j] = sum over i of x[i][j] * p[k][i]
void transposed_times(const MatrixSize& size, const float* x, const float* p, float* z);

// x[i][j] += coefficient * (p[0][i] * z[0][j] + p[1][i] * z[1][j] + ...), added from left to right
void add_outer(const MatrixSize& size, float coefficient, const float* p, const float* z, float* x);

}  // namespace starling
