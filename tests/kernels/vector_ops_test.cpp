#include "kernels/vector_ops.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kernels/inputs.h"
#include "tests/kernels/targets.h"

namespace starling {
namespace {

double plain_squared_norm(const std::vector<float>& x) {
  long double sum = 0;
  for (float value : x) sum += static_cast<long double>(value) * value;
  return static_cast<double>(sum);
}

TEST(VectorOps, AxpyIsOneMultiplyAndOneAdd) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kTestSizes) {
    const std::vector<float> x = hostile_vector(rng, count);
    const std::vector<float> y = hostile_vector(rng, count);
    const float a = normal_vector(rng, 1, 1.0f)[0];
    std::vector<float> expected = y;
    for (size_t i = 0; i < count; ++i) {
      const volatile float product = a * x[i];  // volatile: rounded, whatever the compiler fancies
      expected[i] = y[i] + product;
    }
    for_each_target([&] {
      std::vector<float> got = y;
      axpy(a, x.data(), got.data(), count);
      EXPECT_EQ(bits_of(got), bits_of(expected)) << count;
    });
  }
}

TEST(VectorOps, AxpyOntoItself) {
  TestRng rng(draw_rng_seed());
  for_each_target([&] {
    std::vector<float> x = normal_vector(rng, 1001, 1.0f);
    const std::vector<float> before = x;
    axpy(1.0f, x.data(), x.data(), x.size());
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(x[i], 2 * before[i]);
  });
}

TEST(VectorOps, SumsMatchAWiderSum) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kTestSizes) {
    const std::vector<float> x = normal_vector(rng, count, 3.0f);
    const std::vector<float> y = normal_vector(rng, count, 3.0f);
    std::vector<float> difference(count);
    for (size_t i = 0; i < count; ++i) difference[i] = y[i] - x[i];
    const double norm = plain_squared_norm(x);
    const double distance = plain_squared_norm(difference);
    for_each_target([&] {
      EXPECT_NEAR(squared_norm(x.data(), count), norm, 1e-13 * norm) << count;
      EXPECT_NEAR(squared_distance(x.data(), y.data(), count), distance, 1e-13 * distance) << count;
    });
  }
}

TEST(VectorOps, SumsAreTheSameBitsOnEveryTarget) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kTestSizes) {
    const std::vector<float> x = normal_vector(rng, count, 1e3f);
    const std::vector<float> y = normal_vector(rng, count, 1e-3f);
    const double norm = squared_norm(x.data(), count);
    const double distance = squared_distance(x.data(), y.data(), count);
    for_each_target([&] {
      EXPECT_EQ(squared_norm(x.data(), count), norm) << count;
      EXPECT_EQ(squared_distance(x.data(), y.data(), count), distance) << count;
    });
  }
}

TEST(VectorOps, LargeValuesDoNotOverflowTheSum) {
  const std::vector<float> x(1000, FLT_MAX);
  for_each_target(
      [&] { EXPECT_NEAR(squared_norm(x.data(), x.size()) / (1000.0 * FLT_MAX * double{FLT_MAX}), 1.0, 1e-12); });
}

TEST(VectorOps, CountsEveryNonfiniteWhereverItStands) {
  TestRng rng(draw_rng_seed());
  constexpr float kBad[] = {INFINITY, -INFINITY, NAN, -NAN};
  for (size_t count : kTestSizes) {
    const std::vector<float> clean = hostile_vector(rng, count);
    for_each_target([&] {
      EXPECT_EQ(count_nonfinite(clean.data(), count), 0u);
      std::vector<float> sick = clean;
      size_t planted = 0;
      for (size_t i = rng() % 7; i < count; i += 1 + rng() % 97, ++planted) sick[i] = kBad[rng() % 4];
      EXPECT_EQ(count_nonfinite(sick.data(), count), planted) << count;
    });
  }
}

TEST(VectorOps, MaxAbsFindsItWhereverItStands) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kTestSizes) {
    const std::vector<float> x = hostile_vector(rng, count);
    float expected = 0;
    for (float value : x) expected = std::max(expected, std::fabs(value));
    for_each_target([&] {
      EXPECT_EQ(max_abs(x.data(), count), expected) << count;
      if (count == 0) return;
      std::vector<float> sick = x;
      sick[rng() % count] = -INFINITY;
      EXPECT_EQ(max_abs(sick.data(), count), INFINITY);
      sick[rng() % count] = NAN;
      EXPECT_TRUE(std::isnan(max_abs(sick.data(), count)));
    });
  }
}

}  // namespace
}  // namespace starling
