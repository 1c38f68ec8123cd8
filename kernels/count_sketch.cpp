#include "kernels/count_sketch.h"

#include <algorithm>
#include <array>
#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/count_sketch.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/check.h"
#include "kernels/lanes-inl.h"
#include "kernels/sketch_place.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

// cells[r][i] += x[i] for every row r, sign bits flipped by flips[r]. All rows of an element at once: it is read once,
// and while memory fetches what comes next the rows' cells keep the processor busy.
template <size_t kRows>
void add_run(const float* x, size_t count, const uint32_t* flips, float* const* cells) {
  const auto step = [&](auto tag, size_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(tag)> tag_u;
    const auto v = load_next(tag, x + i);
    STARLING_UNROLL for (size_t r = 0; r < kRows; ++r) {
      const auto signed_v = hn::Xor(v, hn::BitCast(tag, hn::Set(tag_u, flips[r])));
      hn::StoreU(hn::Add(hn::LoadU(tag, cells[r] + i), signed_v), tag, cells[r] + i);
    }
  };
  for_each_vector<float>(count, step);
}

void add_run_1(const float* x, size_t count, const uint32_t* flips, float* const* cells) {
  add_run<1>(x, count, flips, cells);
}
void add_run_3(const float* x, size_t count, const uint32_t* flips, float* const* cells) {
  add_run<3>(x, count, flips, cells);
}
void add_run_5(const float* x, size_t count, const uint32_t* flips, float* const* cells) {
  add_run<5>(x, count, flips, cells);
}

// Of three lanes, or scalars, the middle one.
template <class V>
HWY_INLINE V middle(V a, V b, V c) {
  return hn::Max(hn::Min(a, b), hn::Min(hn::Max(a, b), c));
}

// out[i] = the median over rows of cells[r][i], signs flipped by flips[r].
template <size_t kRows>
void median_run(const float* const* cells, const uint32_t* flips, size_t count, float* out) {
  const hn::ScalableTag<float> d;
  const auto step = [&](auto tag, size_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(tag)> tag_u;
    hn::Vec<decltype(tag)> v[kRows];
    STARLING_UNROLL for (size_t r = 0; r < kRows; ++r) {
      v[r] = hn::Xor(hn::LoadU(tag, cells[r] + i), hn::BitCast(tag, hn::Set(tag_u, flips[r])));
    }
    if constexpr (kRows == 1) {
      hn::StoreU(v[0], tag, out + i);
    } else if constexpr (kRows == 3) {
      hn::StoreU(middle(v[0], v[1], v[2]), tag, out + i);
    } else {
      const auto low = hn::Max(hn::Min(v[0], v[1]), hn::Min(v[2], v[3]));
      const auto high = hn::Min(hn::Max(v[0], v[1]), hn::Max(v[2], v[3]));
      hn::StoreU(middle(low, high, v[4]), tag, out + i);
    }
  };
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) step(d, i);
  for (; i < count; ++i) step(hn::CappedTag<float, 1>(), i);
}

void median_run_1(const float* const* cells, const uint32_t* flips, size_t count, float* out) {
  median_run<1>(cells, flips, count, out);
}
void median_run_3(const float* const* cells, const uint32_t* flips, size_t count, float* out) {
  median_run<3>(cells, flips, count, out);
}
void median_run_5(const float* const* cells, const uint32_t* flips, size_t count, float* out) {
  median_run<5>(cells, flips, count, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(add_run_1);
HWY_EXPORT(add_run_3);
HWY_EXPORT(add_run_5);
HWY_EXPORT(median_run_1);
HWY_EXPORT(median_run_3);
HWY_EXPORT(median_run_5);

namespace {

void add(size_t rows, const float* x, size_t count, const uint32_t* flips, float* const* cells) {
  switch (rows) {
    case 1: return HWY_DYNAMIC_DISPATCH(add_run_1)(x, count, flips, cells);
    case 3: return HWY_DYNAMIC_DISPATCH(add_run_3)(x, count, flips, cells);
    default: return HWY_DYNAMIC_DISPATCH(add_run_5)(x, count, flips, cells);
  }
}

void median(size_t rows, const float* const* cells, const uint32_t* flips, size_t count, float* out) {
  switch (rows) {
    case 1: return HWY_DYNAMIC_DISPATCH(median_run_1)(cells, flips, count, out);
    case 3: return HWY_DYNAMIC_DISPATCH(median_run_3)(cells, flips, count, out);
    default: return HWY_DYNAMIC_DISPATCH(median_run_5)(cells, flips, count, out);
  }
}

void check_shape(const SketchShape& shape) {
  STARLING_CHECK((shape.rows == 1 || shape.rows == 3 || shape.rows == 5) && shape.columns >= kSketchBlock);
}

// Calls use(at, length, flips, cells) for each run of elements, from first + at on, whose cells lie one after the other
// in every row: a block, or a part of it, to where the next of the rows wraps.
template <class Cell, class Use>
void each_run(const SketchShape& shape, Cell* table, size_t first, size_t count, const Use& use) {
  std::array<SketchPlace, kSketchRowsMax> places;
  std::array<uint32_t, kSketchRowsMax> flips{};
  std::array<Cell*, kSketchRowsMax> cells{};
  for (size_t at = 0; at < count;) {
    const size_t block = (first + at) / shape.block();
    for (size_t row = 0; row < shape.rows; ++row) {
      places[row] = sketch_place(shape, row, block);
      flips[row] = places[row].flip;
    }
    for (const size_t end = std::min(count, (block + 1) * shape.block() - first); at < end;) {
      size_t length = end - at;
      for (size_t row = 0; row < shape.rows; ++row) {
        const size_t column = (places[row].offset + (first + at) % shape.block()) % shape.columns;
        length = std::min(length, shape.columns - column);
        cells[row] = table + row * shape.columns + column;
      }
      use(at, length, flips.data(), cells.data());
      at += length;
    }
  }
}

}  // namespace

void sketch_add(const SketchShape& shape, const float* x, size_t count, float* table) {
  check_shape(shape);
  each_run(shape, table, 0, count, [&](size_t at, size_t length, const uint32_t* flips, float* const* cells) {
    add(shape.rows, x + at, length, flips, cells);
  });
}

void sketch_estimate(const SketchShape& shape, const float* table, size_t first, size_t count, float* out) {
  check_shape(shape);
  STARLING_CHECK(first % kSketchBlock == 0);
  each_run(shape, table, first, count, [&](size_t at, size_t length, const uint32_t* flips, const float* const* cells) {
    median(shape.rows, cells, flips, length, out + at);
  });
}

}  // namespace starling
#endif  // HWY_ONCE
