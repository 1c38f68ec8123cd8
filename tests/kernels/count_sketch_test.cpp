#include "kernels/count_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/sketch_place.h"
#include "tests/kernels/fills.h"
#include "tests/kernels/targets.h"

namespace starling {
namespace {

struct Cell {
  size_t at = 0;
  float sign = 1;
};

// As the header says, element by element.
Cell cell_of(const SketchShape& shape, size_t row, size_t element) {
  const size_t block = shape.columns < 4096 ? 256 : 1024;
  uint64_t hash = shape.seed + (uint64_t{element / block} * 5 + row + 1) * 0x9E3779B97F4A7C15u;
  hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9u;
  hash = (hash ^ hash >> 27) * 0x94D049BB133111EBu;
  hash ^= hash >> 31;
  const size_t offset = (hash >> 32) * shape.columns >> 32;
  return {row * shape.columns + (offset + element % block) % shape.columns, (hash & 1) == 0 ? 1.0f : -1.0f};
}

template <class Sum>
std::vector<Sum> plain_table(const SketchShape& shape, const std::vector<float>& x) {
  std::vector<Sum> table(shape.cells());
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t row = 0; row < shape.rows; ++row) {
      const Cell cell = cell_of(shape, row, i);
      table[cell.at] += static_cast<Sum>(cell.sign * x[i]);
    }
  }
  return table;
}

std::vector<float> table_of(const SketchShape& shape, const std::vector<float>& x) {
  constexpr float kGuard = 12345;
  std::vector<float> table(shape.cells() + 1);
  table.back() = kGuard;
  sketch_add(shape, x.data(), x.size(), table.data());
  EXPECT_EQ(table.back(), kGuard) << "wrote beyond the table";
  table.pop_back();
  return table;
}

std::vector<float> estimates(const SketchShape& shape, const std::vector<float>& table, size_t first, size_t count) {
  constexpr float kGuard = 12345;
  std::vector<float> out(count + 1, kGuard);
  sketch_estimate(shape, table.data(), first, count, out.data());
  EXPECT_EQ(out.back(), kGuard) << "wrote beyond the end";
  out.pop_back();
  return out;
}

std::vector<SketchShape> shapes(TestRng& rng) {
  return {{1, 256, rng()}, {3, 257, rng()}, {5, 300, rng()}, {3, 1000, rng()}, {5, 4099, rng()}};
}

TEST(CountSketch, EachCellAddsItsElementsInOrder) {
  TestRng rng(draw_rng_seed());
  for (const FilledSize& input : filled_sizes()) {
    const std::vector<float> x = filled_vector(rng, input.fill, input.count);
    for (const SketchShape& shape : shapes(rng)) {
      const std::vector<float> expected = plain_table<float>(shape, x);
      for_each_target([&] {
        ASSERT_EQ(bits_but_nan(table_of(shape, x)), bits_but_nan(expected)) << input.name << ", " << shape.columns;
      });
    }
  }
}

TEST(CountSketch, ACellIsItsSumInDouble) {
  TestRng rng(draw_rng_seed());
  for (const size_t count : {size_t{1}, size_t{3}, size_t{1025}, size_t{200003}}) {
    const std::vector<float> x = normal_vector(rng, count, 1.0f);
    const SketchShape shape{3, 1000, rng()};
    const std::vector<double> expected = plain_table<double>(shape, x);
    const std::vector<float> table = table_of(shape, x);
    for (size_t i = 0; i < table.size(); ++i) ASSERT_NEAR(table[i], expected[i], 1e-3) << i << " of " << count;
  }
}

TEST(CountSketch, AnEstimateIsTheMedianOfItsCells) {
  TestRng rng(draw_rng_seed());
  for (const SketchShape& shape : shapes(rng)) {
    const std::vector<float> table =
        rng() % 2 == 0 ? normal_vector(rng, shape.cells(), 1.0f) : hostile_vector(rng, shape.cells());
    for (const size_t first : {size_t{0}, kSketchBlock, 40 * kSketchBlock}) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{3}, size_t{255}, size_t{257}, size_t{5001}}) {
        std::vector<float> expected(count);
        for (size_t i = 0; i < count; ++i) {
          std::vector<float> cells;
          for (size_t row = 0; row < shape.rows; ++row) {
            const Cell cell = cell_of(shape, row, first + i);
            cells.push_back(cell.sign * table[cell.at]);
          }
          std::sort(cells.begin(), cells.end());
          expected[i] = cells[cells.size() / 2];
        }
        for_each_target([&] {
          ASSERT_EQ(estimates(shape, table, first, count), expected) << shape.rows << " x " << shape.columns;
        });
      }
    }
  }
}

TEST(CountSketch, TheTableOfASumIsTheSumOfTheTables) {
  TestRng rng(draw_rng_seed());
  const size_t count = 20011;
  std::vector<float> x(count), y(count), sum(count);
  for (size_t i = 0; i < count; ++i) {  // integers: float sums are exact
    x[i] = static_cast<float>(static_cast<int>(rng() % 201) - 100);
    y[i] = static_cast<float>(static_cast<int>(rng() % 201) - 100);
    sum[i] = x[i] + y[i];
  }
  for (const SketchShape& shape : shapes(rng)) {
    std::vector<float> table = table_of(shape, x);
    sketch_add(shape, y.data(), count, table.data());
    EXPECT_EQ(table, table_of(shape, sum));
  }
}

// A block shares no cell with itself; so does a lone element.
TEST(CountSketch, OneBlockIsEstimatedExactly) {
  TestRng rng(draw_rng_seed());
  for (const SketchShape& shape : shapes(rng)) {
    std::vector<float> x(7 * kSketchBlock);
    for (size_t i = 2 * kSketchBlock; i < 3 * kSketchBlock; ++i) x[i] = normal_vector(rng, 1, 1.0f)[0];
    EXPECT_EQ(estimates(shape, table_of(shape, x), 2 * kSketchBlock, kSketchBlock),
              std::vector<float>(x.begin() + 2 * kSketchBlock, x.begin() + 3 * kSketchBlock));
  }
}

TEST(CountSketch, WhatIsNotFiniteShowsInTheTable) {
  TestRng rng(draw_rng_seed());
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
    std::vector<float> x = normal_vector(rng, 5001, 1.0f);
    x[rng() % x.size()] = bad;
    for (const SketchShape& shape : shapes(rng)) {
      const std::vector<float> table = table_of(shape, x);
      EXPECT_TRUE(std::any_of(table.begin(), table.end(), [](float cell) { return !std::isfinite(cell); })) << bad;
    }
  }
}

// Two elements of a block never share a cell; two of different blocks once in `columns` seeds, wherever they lie, and
// then half the time with one sign. With short blocks and with long ones.
TEST(CountSketch, TwoElementsShareACellOncePerColumn) {
  TestRng rng(draw_rng_seed());
  for (const auto& [columns, trials] : {std::pair<uint32_t, size_t>{257, 100'000}, {4099, 1'600'000}}) {
    const SketchShape any{1, columns, 0};
    const size_t block = any.block();
    const std::pair<size_t, size_t> pairs[] = {{0, block},
                                               {5, block + 6},
                                               {0, 2 * block - 1},
                                               {17, block + 1},
                                               {block / 2, 7 * block},
                                               {block - 1, block},
                                               {3 * block + 1, 1},
                                               {0, 1},
                                               {7, block - 1}};
    for (const auto& [a, b] : pairs) {
      size_t shared = 0, alike = 0;
      for (size_t trial = 0; trial < trials; ++trial) {
        const SketchShape shape{1, columns, rng()};
        const SketchPlace of_a = sketch_place(shape, 0, a / block), of_b = sketch_place(shape, 0, b / block);
        if ((of_a.offset + a % block) % columns != (of_b.offset + b % block) % columns) continue;
        ++shared;
        alike += of_a.flip == of_b.flip;
      }
      SCOPED_TRACE(std::to_string(a) + ", " + std::to_string(b) + " of " + std::to_string(columns));
      if (a / block == b / block) {
        EXPECT_EQ(shared, 0u);
        continue;
      }
      const double expected = static_cast<double>(trials) / columns;
      EXPECT_NEAR(static_cast<double>(shared), expected, 6 * std::sqrt(expected));
      EXPECT_NEAR(static_cast<double>(alike), expected / 2, 6 * std::sqrt(expected / 2));
    }
  }
}

// Over seeds an estimate's mean is the element and its mean squared error |x|^2 / columns, also where the elements are
// alike, lie in runs, or repeat with the blocks.
TEST(CountSketch, AnEstimateIsUnbiasedWithinTheBoundOfItsVariance) {
  TestRng rng(draw_rng_seed());
  constexpr size_t kCount = 64 * kSketchBlock, kTrials = 400;
  constexpr uint32_t kColumns = 2048;
  std::vector<float> runs(kCount), columns(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    runs[i] = i / 64 % 7 == 0 ? 3.0f : 0.1f;
    columns[i] = i % kSketchBlock < 8 ? 5.0f : 0.1f;
  }
  for (const std::vector<float>& x :
       {normal_vector(rng, kCount, 1.0f), std::vector<float>(kCount, 0.7f), runs, columns}) {
    const double energy = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
    double squares = 0, sum = 0;
    for (size_t trial = 0; trial < kTrials; ++trial) {
      const SketchShape shape{1, kColumns, rng()};
      const std::vector<float> found = estimates(shape, table_of(shape, x), 0, kCount);
      double off = 0;
      for (size_t i = 0; i < kCount; ++i) {
        off += static_cast<double>(found[i] - x[i]);
        squares += static_cast<double>(found[i] - x[i]) * static_cast<double>(found[i] - x[i]);
      }
      sum += off / kCount;
    }
    const double bound = energy / kColumns, error = squares / static_cast<double>(kTrials * kCount);
    EXPECT_NEAR(error, bound, 0.25 * bound);  // of runs whole blocks collide or do not
    EXPECT_NEAR(sum / kTrials, 0, 6 * std::sqrt(bound / kTrials));
  }
}

// The energy of the k elements with the largest estimates, against that with a hash for each element.
TEST(CountSketch, RecallsWhatAHashForEachElementDoes) {
  TestRng rng(draw_rng_seed());
  constexpr size_t kCount = 200'000, kTop = 2'000;
  const SketchShape shape{3, kCount / 30, 0};
  std::vector<float> x = normal_vector(rng, kCount, 1.0f);
  for (float& value : x) value = value * value * value;
  const auto recalled = [&](const std::vector<float>& estimated) {
    std::vector<size_t> order(kCount);
    std::iota(order.begin(), order.end(), size_t{0});
    std::nth_element(order.begin(), order.begin() + kTop, order.end(),
                     [&](size_t a, size_t b) { return std::fabs(estimated[a]) > std::fabs(estimated[b]); });
    double energy = 0;
    for (size_t i = 0; i < kTop; ++i) energy += std::pow(static_cast<double>(x[order[i]]), 2);
    return energy;
  };
  double blocks = 0, hashes = 0;
  for (int trial = 0; trial < 12; ++trial) {
    const SketchShape seeded{shape.rows, shape.columns, rng()};
    blocks += recalled(estimates(seeded, table_of(seeded, x), 0, kCount));
    std::vector<std::vector<size_t>> cells(shape.rows, std::vector<size_t>(kCount));
    std::vector<std::vector<float>> signs(shape.rows, std::vector<float>(kCount));
    std::vector<float> table(shape.cells()), estimated(kCount);
    for (size_t row = 0; row < shape.rows; ++row) {
      for (size_t i = 0; i < kCount; ++i) {
        cells[row][i] = row * shape.columns + rng() % shape.columns;
        signs[row][i] = rng() % 2 == 0 ? 1.0f : -1.0f;
        table[cells[row][i]] += signs[row][i] * x[i];
      }
    }
    for (size_t i = 0; i < kCount; ++i) {
      float rows[3];
      for (size_t row = 0; row < shape.rows; ++row) rows[row] = signs[row][i] * table[cells[row][i]];
      std::sort(rows, rows + 3);
      estimated[i] = rows[1];
    }
    hashes += recalled(estimated);
  }
  EXPECT_NEAR(blocks / hashes, 1, 0.065);  // six standard deviations of twelve trials
  std::cout << "energy recalled, blocks / hashes: " << blocks / hashes << std::endl;
}

}  // namespace
}  // namespace starling
