#include "kernels/low_rank.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/low_rank.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

// Sixteen running sums: element j always goes to sum j mod 16, so the result does not depend on the vectors' width.
HWY_INLINE float dot(const float* a, const float* b, size_t count) {
  constexpr size_t kGroup = 16;
  using D = hn::CappedTag<float, kGroup>;
  const D d;
  constexpr size_t kStep = kLanes<D>, kSteps = kGroup / kStep;
  hn::Vec<D> sums[kSteps];
  STARLING_UNROLL for (size_t v = 0; v < kSteps; ++v) sums[v] = hn::Zero(d);
  size_t j = 0;
  for (; j + kGroup <= count; j += kGroup) {
    STARLING_UNROLL for (size_t v = 0; v < kSteps; ++v) {
      const size_t at = j + v * kStep;
      sums[v] = hn::Add(sums[v], hn::Mul(hn::LoadU(d, a + at), hn::LoadU(d, b + at)));
    }
  }
  float lanes[kGroup];
  STARLING_UNROLL for (size_t v = 0; v < kSteps; ++v) hn::StoreU(sums[v], d, lanes + v * kStep);
  for (size_t lane = 0; j < count; ++j, ++lane) lanes[lane] += a[j] * b[j];
  float sum = 0;
  for (float lane : lanes) sum += lane;
  return sum;
}

void matrix_times_loop(const MatrixSize& size, const float* x, const float* q, float* y) {
  for (size_t i = 0; i < size.rows; ++i) {
    for (size_t k = 0; k < size.rank; ++k) {
      y[k * size.rows + i] = dot(x + i * size.columns, q + k * size.columns, size.columns);
    }
  }
}

// z += p[0] * row 0 + ... of so many rows, which are read side by side so that z is loaded and stored once for all.
template <size_t kRows>
HWY_INLINE void add_rows(const float* x, size_t columns, const float* p, float* z) {
  for_each_vector<float>(columns, [&](auto d, size_t j) HWY_ATTR {
    auto sum = hn::LoadU(d, z + j);
    STARLING_UNROLL for (size_t r = 0; r < kRows; ++r) {
      sum = hn::Add(sum, hn::Mul(hn::Set(d, p[r]), hn::LoadU(d, x + r * columns + j)));
    }
    hn::StoreU(sum, d, z + j);
  });
}

void transposed_times_loop(const MatrixSize& size, const float* x, const float* p, float* z) {
  constexpr size_t kRows = 4;
  std::fill_n(z, size.rank * size.columns, 0.0f);
  for (size_t i = 0; i < size.rows; i += kRows) {
    const bool whole = i + kRows <= size.rows;
    for (size_t k = 0; k < size.rank; ++k) {
      const float* const row = x + i * size.columns;
      const float* const of_row = p + k * size.rows + i;
      float* const to = z + k * size.columns;
      if (whole) {
        add_rows<kRows>(row, size.columns, of_row, to);
      } else {
        for (size_t r = 0; r < size.rows - i; ++r) add_rows<1>(row + r * size.columns, size.columns, of_row + r, to);
      }
    }
  }
}

void add_outer_loop(const MatrixSize& size, float coefficient, const float* p, const float* z, float* x) {
  if (size.rank == 0) return;
  for (size_t i = 0; i < size.rows; ++i) {
    float* const row = x + i * size.columns;
    for_each_vector<float>(size.columns, [&](auto d, size_t j) HWY_ATTR {
      auto sum = hn::Mul(hn::Set(d, p[i]), hn::LoadU(d, z + j));
      for (size_t k = 1; k < size.rank; ++k) {
        sum = hn::Add(sum, hn::Mul(hn::Set(d, p[k * size.rows + i]), hn::LoadU(d, z + k * size.columns + j)));
      }
      hn::StoreU(hn::Add(hn::LoadU(d, row + j), hn::Mul(hn::Set(d, coefficient), sum)), d, row + j);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(matrix_times_loop);
HWY_EXPORT(transposed_times_loop);
HWY_EXPORT(add_outer_loop);

void matrix_times(const MatrixSize& size, const float* x, const float* q, float* y) {
  HWY_DYNAMIC_DISPATCH(matrix_times_loop)(size, x, q, y);
}
void transposed_times(const MatrixSize& size, const float* x, const float* p, float* z) {
  HWY_DYNAMIC_DISPATCH(transposed_times_loop)(size, x, p, z);
}
void add_outer(const MatrixSize& size, float coefficient, const float* p, const float* z, float* x) {
  HWY_DYNAMIC_DISPATCH(add_outer_loop)(size, coefficient, p, z, x);
}

}  // namespace starling
#endif  // HWY_ONCE
