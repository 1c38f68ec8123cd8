#include "kernels/low_rank.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/kernels/inputs.h"
#include "tests/kernels/targets.h"

namespace starling {
namespace {

constexpr MatrixSize kSizes[] = {{0, 3, 1},  {3, 0, 1},  {1, 1, 1},   {1, 17, 2},   {17, 1, 2},    {3, 5, 0},
                                 {4, 16, 3}, {5, 15, 1}, {63, 33, 2}, {64, 784, 1}, {130, 100, 7}, {2, 3, 5}};

std::string name_of(const MatrixSize& size) {
  return std::to_string(size.rows) + " x " + std::to_string(size.columns) + ", rank " + std::to_string(size.rank);
}

struct Case {
  std::vector<float> x, q, p, z;
  Case(TestRng& rng, const MatrixSize& size)
      : x(normal_vector(rng, size.rows * size.columns, 1)),
        q(normal_vector(rng, size.columns * size.rank, 1)),
        p(normal_vector(rng, size.rows * size.rank, 1)),
        z(normal_vector(rng, size.columns * size.rank, 1)) {}
};

// A sum of n products of about 1 in float is off by less than n roundings of the largest sum.
void expect_near(const std::vector<float>& got, const std::vector<double>& expected, size_t terms) {
  ASSERT_EQ(got.size(), expected.size());
  const double bound = 1e-6 * static_cast<double>(terms + 1);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(static_cast<double>(got[i]), expected[i], bound) << i;
}

std::vector<double> plain_times(const MatrixSize& size, const Case& c) {
  std::vector<double> y(size.rows * size.rank);
  for (size_t k = 0; k < size.rank; ++k) {
    for (size_t i = 0; i < size.rows; ++i) {
      for (size_t j = 0; j < size.columns; ++j) {
        y[k * size.rows + i] += double{c.x[i * size.columns + j]} * double{c.q[k * size.columns + j]};
      }
    }
  }
  return y;
}

std::vector<double> plain_transposed(const MatrixSize& size, const Case& c) {
  std::vector<double> z(size.columns * size.rank);
  for (size_t k = 0; k < size.rank; ++k) {
    for (size_t i = 0; i < size.rows; ++i) {
      for (size_t j = 0; j < size.columns; ++j) {
        z[k * size.columns + j] += double{c.x[i * size.columns + j]} * double{c.p[k * size.rows + i]};
      }
    }
  }
  return z;
}

TEST(LowRankLoops, ProductsMatchTheirFormulasInDouble) {
  TestRng rng(draw_rng_seed());
  for (const MatrixSize& size : kSizes) {
    SCOPED_TRACE(name_of(size));
    const Case c(rng, size);
    for_each_target([&] {
      std::vector<float> y(size.rows * size.rank, 9), z(size.columns * size.rank, 9);
      matrix_times(size, c.x.data(), c.q.data(), y.data());
      transposed_times(size, c.x.data(), c.p.data(), z.data());
      expect_near(y, plain_times(size, c), size.columns);
      expect_near(z, plain_transposed(size, c), size.rows);
    });
  }
}

// Hostile values: a product may be infinite or no number, at the same places with the same bits everywhere.
TEST(LowRankLoops, AreTheSameBitsOnEveryInstructionSet) {
  TestRng rng(draw_rng_seed());
  for (const MatrixSize& size : kSizes) {
    SCOPED_TRACE(name_of(size));
    Case c(rng, size);
    if (size.rows > 4) c.x = hostile_vector(rng, c.x.size());
    std::vector<std::vector<uint32_t>> first;
    for_each_target([&] {
      std::vector<float> y(size.rows * size.rank), z(size.columns * size.rank), x = c.x;
      matrix_times(size, c.x.data(), c.q.data(), y.data());
      transposed_times(size, c.x.data(), c.p.data(), z.data());
      add_outer(size, 0.3f, c.p.data(), c.z.data(), x.data());
      for (std::vector<float>* values : {&y, &z}) {  // which NaN a sum is depends on the instruction set
        for (float& value : *values) value = std::isnan(value) ? 0 : value;
      }
      const std::vector<std::vector<uint32_t>> bits = {bits_of(y), bits_of(z), bits_of(x)};
      if (first.empty()) first = bits;
      EXPECT_EQ(bits, first);
    });
  }
}

// volatile: every operation rounds on its own.
TEST(LowRankLoops, TheOuterProductRoundsEveryOperationOnItsOwn) {
  TestRng rng(draw_rng_seed());
  for (const MatrixSize& size : kSizes) {
    SCOPED_TRACE(name_of(size));
    const Case c(rng, size);
    std::vector<float> expected = c.x;
    for (size_t i = 0; i < size.rows && size.rank > 0; ++i) {
      for (size_t j = 0; j < size.columns; ++j) {
        volatile float sum = c.p[i] * c.z[j];
        for (size_t k = 1; k < size.rank; ++k) {
          const volatile float product = c.p[k * size.rows + i] * c.z[k * size.columns + j];
          sum = sum + product;
        }
        const volatile float moved = -0.7f * sum;
        expected[i * size.columns + j] += moved;
      }
    }
    for_each_target([&] {
      std::vector<float> x = c.x;
      add_outer(size, -0.7f, c.p.data(), c.z.data(), x.data());
      EXPECT_EQ(bits_of(x), bits_of(expected));
    });
  }
}

}  // namespace
}  // namespace starling
