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

// cells[i] += x[i], its sign bit flipped where `flip` has one.
void add_run(const float* x, size_t count, uint32_t flip, float* cells) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto mask = hn::BitCast(d, hn::Set(du, flip));
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Add(hn::LoadU(d, cells + i), hn::Xor(hn::LoadU(d, x + i), mask)), d, cells + i);
  }
  for (; i < count; ++i) cells[i] += std::bit_cast<float>(std::bit_cast<uint32_t>(x[i]) ^ flip);
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

HWY_EXPORT(add_run);
HWY_EXPORT(median_run_1);
HWY_EXPORT(median_run_3);
HWY_EXPORT(median_run_5);

namespace {

// Elements that go into one row before the next: they stay in the nearer cache, and so does most of the row.
constexpr size_t kPiece = 128 * kSketchBlock;

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

}  // namespace

void sketch_add(const SketchShape& shape, const float* x, size_t count, float* table) {
  check_shape(shape);
  for (size_t piece = 0; piece < count; piece += kPiece) {
    const size_t end = std::min(count, piece + kPiece);
    for (size_t row = 0; row < shape.rows; ++row) {
      float* const cells = table + row * shape.columns;
      for (size_t at = piece; at < end; at += kSketchBlock) {
        const SketchPlace to = sketch_place(shape, row, at / kSketchBlock);
        const size_t length = std::min(kSketchBlock, end - at);
        const size_t first = std::min(length, shape.columns - to.offset);
        HWY_DYNAMIC_DISPATCH(add_run)(x + at, first, to.flip, cells + to.offset);
        if (first < length) HWY_DYNAMIC_DISPATCH(add_run)(x + at + first, length - first, to.flip, cells);
      }
    }
  }
}

void sketch_estimate(const SketchShape& shape, const float* table, size_t first, size_t count, float* out) {
  check_shape(shape);
  STARLING_CHECK(first % kSketchBlock == 0);
  std::array<SketchPlace, kSketchRowsMax> places;
  std::array<uint32_t, kSketchRowsMax> flips{};
  for (size_t at = 0; at < count; at += kSketchBlock) {
    for (size_t row = 0; row < shape.rows; ++row) {
      places[row] = sketch_place(shape, row, (first + at) / kSketchBlock);
      flips[row] = places[row].flip;
    }
    const size_t length = std::min(kSketchBlock, count - at);
    for (size_t done = 0; done < length;) {   // to where the next of the rows wraps
      std::array<const float*, kSketchRowsMax> cells{};
      size_t run_length = length - done;
      for (size_t row = 0; row < shape.rows; ++row) {
        const size_t column = (places[row].offset + done) % shape.columns;
        run_length = std::min(run_length, shape.columns - column);
        cells[row] = table + row * shape.columns + column;
      }
      median(shape.rows, cells.data(), flips.data(), run_length, out + at + done);
      done += run_length;
    }
  }
}

}  // namespace starling
#endif  // HWY_ONCE
