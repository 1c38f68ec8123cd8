#include "compression/modulo8_step.h"

#include <gtest/gtest.h>

#include "compression/modulo8.h"
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

TEST(Modulo8Step, TheLargestLeavesRoomForThreeExponents) {
  EXPECT_EQ(largest_exponent(1.0f), -3);
  EXPECT_EQ(largest_exponent(FLT_TRUE_MIN), modulo8_format::kMinExponent + 3);
  EXPECT_EQ(largest_exponent(FLT_MAX), modulo8_format::kMaxExponent);
  EXPECT_EQ(largest_exponent(0.0f), first_exponent(0.0f) + 3);
}

TEST(Modulo8Step, RemembersOnlyLegalExponents) {
  Modulo8Memory memory;
  for (int exponent = -128; exponent <= 127; ++exponent) {
    memory.exponent = 5;
    const std::byte saved = static_cast<std::byte>(exponent);
    const bool legal = exponent == -128 || (exponent >= -100 && exponent <= 100);
    ASSERT_EQ(memory.load({&saved, 1}), legal) << exponent;
    if (!legal) {
      EXPECT_EQ(memory.exponent, 5);
    } else {
      EXPECT_EQ(memory.exponent, exponent == -128 ? std::nullopt : std::optional(exponent));
      EXPECT_EQ(memory.save(), std::vector{saved});
    }
  }
  EXPECT_FALSE(memory.load({}));
}

TEST(Modulo8Step, TroubleDoublesAndDistanceSteers) {
  EXPECT_EQ(next_exponent(PairStatus::kLeftOut, 0, -8, -6, -8), -5);   // wrapped: the steps are near enough
  EXPECT_EQ(next_exponent(PairStatus::kLeftOut, 0, -8, -9, -8), -7);
  EXPECT_EQ(next_exponent(PairStatus::kLeftOut, 0, -8, -1, -8), -1);   // too far apart
  EXPECT_EQ(next_exponent(PairStatus::kLeftOut, 0, -8, -20, -8), -8);
  const auto after = [&](double steps) {  // the largest difference in steps of 2^-8
    return int{next_exponent(PairStatus::kOk, static_cast<float>(steps * 0x1p-8), -8, -8, -8)};
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
  EXPECT_EQ(next_exponent(PairStatus::kOk, 0, -60, -60, -60), -60);
  EXPECT_EQ(next_exponent(PairStatus::kOk, 1e-30f, -60, -60, -60), -60);
  EXPECT_EQ(next_exponent(PairStatus::kLeftOut, 0, 100, 100, 100), 100);
}

// One snapshot may meet two peers: the one that wrapped must not be forgotten for the one that fitted.
TEST(Modulo8Step, ARaiseSinceTheSnapshotStays) {
  EXPECT_EQ(next_exponent(PairStatus::kOk, 0, -8, -8, -7), -7);
  EXPECT_EQ(next_exponent(PairStatus::kLeftOut, 0, -8, -8, -3), -3);
  EXPECT_EQ(next_exponent(PairStatus::kOk, 0, -8, -8, -20), -9) << "encode had to raise it";
}

}  // namespace
}  // namespace starling
