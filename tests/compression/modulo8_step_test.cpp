#include "compression/modulo8_step.h"

#include <gtest/gtest.h>

#include "compression/modulo8_format.h"
#include "tests/kernels/inputs.h"

namespace starling {
namespace {

using namespace modulo8_step;

TEST(Modulo8Step, SmallestExponentKeepsTheCodesInside30Bits) {
  TestRng rng(draw_rng_seed());
  for (int trial = 0; trial < 10000; ++trial) {
    const float max_abs = std::fabs(hostile_vector(rng, 1)[0]);
    const int exponent = smallest_exponent(max_abs);
    EXPECT_LE(std::ldexp(double{max_abs}, -exponent), 0x1p30) << max_abs;
    if (exponent > modulo8_format::kMinExponent) {
      EXPECT_GT(std::ldexp(double{max_abs}, -(exponent - 1)), 0x1p30) << max_abs << ": one finer would do";
    }
    EXPECT_LE(exponent, modulo8_format::kMaxExponent);
  }
}

TEST(Modulo8Step, AFreshBlockCoversItsOwnValues) {
  EXPECT_EQ(first_exponent(1.0f), -6);
  EXPECT_EQ(first_exponent(1.0001f), -5);
  EXPECT_EQ(first_exponent(0.5f), -7);
  EXPECT_EQ(first_exponent(FLT_TRUE_MIN), modulo8_format::kMinExponent);
  EXPECT_GT(first_exponent(0.0f), modulo8_format::kMinExponent);
}

TEST(Modulo8Step, RemembersOnlyLegalExponents) {
  EXPECT_EQ(remembered_exponent({}), std::nullopt);
  EXPECT_EQ(remembered_exponent({.step_exponent = -7}), -7);
  EXPECT_EQ(remembered_exponent({.step_exponent = 127}), 100);
  EXPECT_EQ(remembered_exponent({.step_exponent = -127}), -100);
}

TEST(Modulo8Step, TroubleDoublesAndDistanceSteers) {
  const BlockState state{.step_exponent = -8};
  EXPECT_EQ(next_exponent(PairStatus::kWrapped, 0, -8, -6, state), -5);
  EXPECT_EQ(next_exponent(PairStatus::kWrapped, 0, -8, -9, state), -7);
  EXPECT_EQ(next_exponent(PairStatus::kStepsApart, 0, -8, -2, state), -2);
  EXPECT_EQ(next_exponent(PairStatus::kStepsApart, 0, -8, -20, state), -8);
  const auto after = [&](double steps) {  // the largest difference in steps of 2^-8
    return int{next_exponent(PairStatus::kOk, static_cast<float>(steps * 0x1p-8), -8, -8, state)};
  };
  EXPECT_EQ(after(127), -6);
  EXPECT_EQ(after(33), -7);
  EXPECT_EQ(after(32), -8);
  EXPECT_EQ(after(17), -8);
  EXPECT_EQ(after(16), -9);
  EXPECT_EQ(after(1), -9);  // one at a time
  EXPECT_EQ(after(0), -9);
}

TEST(Modulo8Step, NeverBelowTheFloorNorAboveTheCeiling) {
  EXPECT_EQ(next_exponent(PairStatus::kOk, 0, -60, -60, {.step_exponent = -60}), -60);
  EXPECT_EQ(next_exponent(PairStatus::kOk, 1e-30f, -60, -60, {.step_exponent = -60}), -60);
  EXPECT_EQ(next_exponent(PairStatus::kWrapped, 0, 100, 100, {.step_exponent = 100}), 100);
}

// One snapshot may meet two peers: the one that wrapped must not be forgotten for the one that fitted.
TEST(Modulo8Step, ARaiseSinceTheSnapshotStays) {
  EXPECT_EQ(next_exponent(PairStatus::kOk, 0, -8, -8, {.step_exponent = -7}), -7);
  EXPECT_EQ(next_exponent(PairStatus::kWrapped, 0, -8, -8, {.step_exponent = -3}), -3);
  EXPECT_EQ(next_exponent(PairStatus::kOk, 0, -8, -8, {.step_exponent = -20}), -9) << "encode had to raise it";
}

}  // namespace
}  // namespace starling
