#include "kernels/projection.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/split_mix.h"
#include "tests/kernels/inputs.h"
#include "tests/kernels/targets.h"

namespace starling {
namespace {

Projection project(const std::vector<float>& x) { return project(ConstView{x.data(), x.size(), MemorySpace::kHost}); }

TEST(Projection, OfNothingIsZeroAndOfOneElementItsSize) {
  EXPECT_EQ(project(std::vector<float>{}), Projection{});
  EXPECT_NEAR(projected_distance(project({-3}), Projection{}), 3, 1e-6);
}

// Its definition, element by element: members compare what other processors have computed.
Projection plainly(const std::vector<float>& x) {
  std::array<double, kProjectionBuckets> sums{};
  for (size_t run = 0; run * 64 < x.size(); ++run) {
    const uint64_t signs = split_mix(2 * run + kSplitMixStep), turn = split_mix(2 * run + 1 + kSplitMixStep);
    float row[kProjectionBuckets] = {};
    for (size_t i = 0; i < 64 && run * 64 + i < x.size(); ++i) {
      const float value = x[run * 64 + i];
      row[i % kProjectionBuckets] += (signs >> i & 1) != 0 ? -value : value;
    }
    for (size_t i = 0; i < kProjectionBuckets; ++i) sums[(i + turn) % kProjectionBuckets] += double{row[i]};
  }
  Projection projection{};
  const double scale = x.empty() ? 0 : 1 / std::sqrt(static_cast<double>(x.size()));
  for (size_t b = 0; b < kProjectionBuckets; ++b) projection[b] = static_cast<float>(scale * sums[b]);
  return projection;
}

TEST(Projection, IsTheSameBitsOnEveryInstructionSet) {
  TestRng rng(draw_rng_seed());
  for (const size_t count : {0, 1, 3, 16, 63, 64, 65, 1000, 70'001}) {
    std::vector<float> x = normal_vector(rng, count, 1.0f);
    for (size_t i = 0; i < count; i += 5) x[i] *= std::exp2(static_cast<float>(rng() % 100) - 50);  // the order shows
    for (size_t i = 3; i < count; i += 97) x[i] = i % 2 == 0 ? -0.0f : std::numeric_limits<float>::denorm_min();
    const Projection expected = plainly(x);
    for_each_target([&] {
      const Projection found = project(x);
      for (size_t b = 0; b < kProjectionBuckets; ++b) {
        EXPECT_EQ(std::bit_cast<uint32_t>(found[b]), std::bit_cast<uint32_t>(expected[b])) << count << ", " << b;
      }
    });
  }
}

TEST(Projection, IsLinearButForRounding) {
  TestRng rng(draw_rng_seed());
  for (const size_t count : {size_t{3}, size_t{64}, size_t{65}, size_t{70'001}}) {
    const std::vector<float> x = normal_vector(rng, count, 1.0f), y = normal_vector(rng, count, 1.0f);
    std::vector<float> sum(count);
    for (size_t i = 0; i < count; ++i) sum[i] = x[i] + y[i];
    const Projection a = project(x), b = project(y), both = project(sum);
    for (size_t k = 0; k < kProjectionBuckets; ++k) EXPECT_NEAR(both[k], a[k] + b[k], 1e-5) << count;
  }
}

// The estimate's square is chi-squared with 16 degrees of freedom, over 16: its mean over 400 has a deviation of .018.
// Differences of equal elements, of a few channels of sixteen, and noise must not matter.
TEST(Projection, TellsTheRmsDistanceOfTwoVectors) {
  TestRng rng(draw_rng_seed());
  for (int kind = 0; kind < 3; ++kind) {
    double mean = 0;
    constexpr int kTrials = 400;
    for (int trial = 0; trial < kTrials; ++trial) {
      const size_t count = 4000 + rng() % 1000;
      const std::vector<float> x = normal_vector(rng, count, 1.0f);
      std::vector<float> y = x;
      const std::vector<float> noise = normal_vector(rng, count, 0.1f);
      for (size_t i = 0; i < count; ++i) {
        y[i] += kind == 0 ? noise[i] : kind == 1 ? 0.1f : i % 16 < 2 ? noise[i] : 0;
      }
      double squares = 0;
      for (size_t i = 0; i < count; ++i) squares += std::pow(double{x[i]} - double{y[i]}, 2);
      const double ratio = projected_distance(project(x), project(y)) / std::sqrt(squares / static_cast<double>(count));
      mean += ratio * ratio / kTrials;
      if (kind != 1) {                   // the signs are the same in each trial, so equal elements meet few of them
        ASSERT_GT(ratio, 0.15) << kind;  // below .2 once in 400 million
        ASSERT_LT(ratio, 2.2) << kind;
      }
    }
    const double off = kind == 1 ? 0.8 : 0.11;
    EXPECT_NEAR(mean, 1, off) << kind;
  }
}

TEST(Projection, ShowsWhatIsNotFinite) {
  TestRng rng(draw_rng_seed());
  for (const float bad : {NAN, INFINITY}) {
    std::vector<float> x = normal_vector(rng, 1000, 1.0f);
    x[rng() % 1000] = bad;
    EXPECT_FALSE(std::isfinite(projected_distance(project(x), Projection{})));
  }
}

}  // namespace
}  // namespace starling
