// Pairs that mix a matrix along a few directions: PowerGossip (Vogels, Karimireddy, Jaggi 2020, arXiv:2008.01425), with
// one step of power iteration in each exchange. Of the two agents' matrices X with m rows and n columns, rank r:
//   q    n x r, drawn from a seed that both know
//   y    = X q, the first half of a payload: m r values
//   p    the columns of y_peer - y_own, made orthonormal, with the sign that makes their first nonzero element positive
//   z    = X^T p, the second half: n r values
//   f    = p (z_peer - z_own)^T, the part of X_peer - X_own that lies in p
// Both reckon p from the bytes that both hold, in double, in one order, and with the same sign: p is the same bits at
// both ends, and f only changes its sign. q and z need not be: what they became travels.
// Values travel as IEEE binary16 of 64 times the value, half to even, vector after vector; one beyond 1023 as 1023.
// Host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compression/codec.h"
#include "kernels/low_rank.h"

namespace starling {

class LowRank {
 public:
  // REQUIRES: rows, columns and rank of at least 1.
  explicit LowRank(const MatrixSize& size);

  // Two halves are smaller than the matrix. Then the rank is below its rows and its columns.
  static bool pays(const MatrixSize& size) { return size.rank * (size.rows + size.columns) < size.rows * size.columns; }

  size_t element_count() const { return size_.rows * size_.columns; }
  size_t first_bytes() const { return kValueBytes * size_.rows * size_.rank; }
  size_t second_bytes() const { return kValueBytes * size_.columns * size_.rank; }

  // Writes y. REQUIRES: x is finite; out.size() == first_bytes().
  void write_first(const float* x, uint64_t seed, MutableBytes out) const;
  // Writes z. REQUIRES: likewise; both firsts pass check_first().
  void write_second(const float* x, Bytes own_first, Bytes peer_first, MutableBytes out) const;

  // Of a foreign half: looks at nothing but its bytes.
  PayloadStatus check_first(Bytes half) const { return check(half, first_bytes()); }
  PayloadStatus check_second(Bytes half) const { return check(half, second_bytes()); }
  // Of two second halves that pass: what the delta moves, the squares of f. It is less than the models' distance.
  PairStats stats(Bytes own_second, Bytes peer_second) const;

  // x += coefficient * f, where `own` and `peer` are both halves, one behind the other: one rounding by each multiply
  // and add. REQUIRES: all halves pass.
  void apply(float coefficient, Bytes own, Bytes peer, View x) const;

 private:
  static constexpr size_t kValueBytes = 2;

  static PayloadStatus check(Bytes half, size_t bytes);
  std::vector<float> directions(Bytes own_first, Bytes peer_first) const;

  MatrixSize size_;
};

// The columns of a matrix of `columns` vectors of `rows` values, one vector after the other: made orthonormal from the
// first on. One that depends on those before it becomes zero. The first nonzero element of each is positive.
void make_orthonormal(std::vector<double>& vectors, size_t rows);

}  // namespace starling
