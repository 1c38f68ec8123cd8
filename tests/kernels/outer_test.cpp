#include "kernels/outer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kernels/inputs.h"
#include "tests/kernels/targets.h"

namespace starling {
namespace {

struct Replica { std::vector<float> m, r; };

// volatile: every operation rounds on its own.
Replica plain_nesterov(const NesterovStep& step, const std::vector<float>& v, const Replica& from) {
  Replica to = from;
  for (size_t i = 0; i < v.size(); ++i) {
    const volatile float value = step.factor * v[i];
    const volatile float kept = step.momentum * from.m[i];
    const volatile float m = kept + value;
    const volatile float ahead = step.momentum * m;
    const volatile float sum = value + ahead;
    const volatile float change = step.rate * sum;
    to.m[i] = m;
    to.r[i] = from.r[i] + change;
  }
  return to;
}

bool finite(const std::vector<float>& x) {
  return std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); });
}

TEST(Outer, NesterovRoundsEveryOperationOnItsOwn) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kTestSizes) {
    const NesterovStep step{.factor = normal_vector(rng, 1, 1.0f)[0], .momentum = 0.9f, .rate = 0.7f};
    const std::vector<float> v = normal_vector(rng, count, 1.0f);
    const Replica from{normal_vector(rng, count, 0.1f), normal_vector(rng, count, 3.0f)};
    const Replica expected = plain_nesterov(step, v, from);
    for_each_target([&] {
      Replica got = from;
      EXPECT_TRUE(nesterov_is_finite(step, v.data(), got.m.data(), got.r.data(), count));
      nesterov(step, v.data(), got.m.data(), got.r.data(), count);
      EXPECT_EQ(bits_of(got.m), bits_of(expected.m)) << count;
      EXPECT_EQ(bits_of(got.r), bits_of(expected.r)) << count;
    });
  }
}

// Against the formula in double: the order of operations above is the right one.
TEST(Outer, NesterovMatchesTheFormulaInDouble) {
  TestRng rng(draw_rng_seed());
  const size_t count = 1025;
  const std::vector<float> v = normal_vector(rng, count, 1.0f);
  Replica replica{std::vector<float>(count), normal_vector(rng, count, 1.0f)};
  std::vector<double> m(count), r(replica.r.begin(), replica.r.end());
  const NesterovStep step{.factor = 0.5f, .momentum = 0.9f, .rate = 0.7f};
  for (int round = 0; round < 20; ++round) {
    nesterov(step, v.data(), replica.m.data(), replica.r.data(), count);
    for (size_t i = 0; i < count; ++i) {
      m[i] = 0.9 * m[i] + 0.5 * v[i];
      r[i] += 0.7 * (0.5 * v[i] + 0.9 * m[i]);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    EXPECT_NEAR(replica.m[i], m[i], 1e-5 * (1 + std::fabs(m[i])));
    EXPECT_NEAR(replica.r[i], r[i], 2e-5 * (1 + std::fabs(r[i])));
  }
}

TEST(Outer, SaysBeforehandWhetherAStepIsFinite) {
  TestRng rng(draw_rng_seed());
  size_t finite_steps = 0, infinite_steps = 0;
  for (size_t count : kTestSizes) {
    for (int trial = 0; trial < 20; ++trial) {
      const NesterovStep step{.factor = 1, .momentum = 0.9f, .rate = 0.7f};
      std::vector<float> v = normal_vector(rng, count, 1.0f);
      Replica from{normal_vector(rng, count, 1.0f), normal_vector(rng, count, 1.0f)};
      if (trial % 2 == 1 && count > 0) {
        const size_t at = rng() % count;
        (trial % 4 == 1 ? from.m : from.r)[at] = v[at] = trial % 3 == 0 ? FLT_MAX : -FLT_MAX;
      }
      const Replica to = plain_nesterov(step, v, from);
      const bool step_fits = finite(to.m) && finite(to.r);
      std::vector<float> sum(count);
      for (size_t i = 0; i < count; ++i) {
        const volatile float product = 2.0f * v[i];
        sum[i] = from.r[i] + product;
      }
      ++(step_fits ? finite_steps : infinite_steps);
      for_each_target([&] {
        EXPECT_EQ(nesterov_is_finite(step, v.data(), from.m.data(), from.r.data(), count), step_fits) << count;
        EXPECT_EQ(axpy_is_finite(2.0f, v.data(), from.r.data(), count), finite(sum)) << count;
      });
    }
  }
  EXPECT_GT(finite_steps, 50u);
  EXPECT_GT(infinite_steps, 50u);
}

}  // namespace
}  // namespace starling
