#include "compression/modulo_step.h"

#include <gtest/gtest.h>

#include "compression/modulo.h"
#include "compression/modulo_format.h"
#include "tests/kernels/inputs.h"

namespace starling {
namespace {

using namespace modulo_step;
constexpr ModuloSteps k8 = kModuloSteps<8>, k4 = kModuloSteps<4>;

TEST(ModuloStep, SmallestExponentKeepsTheCodesInside30Bits) {
  TestRng rng(draw_rng_seed());
  for (const ModuloSteps& steps : {k8, k4}) {
    const double largest = std::ldexp(1.0, steps.values);
    for (int trial = 0; trial < 10000; ++trial) {
      const float max_abs = std::fabs(hostile_vector(rng, 1)[0]);
      const int exponent = smallest_exponent(steps, max_abs);
      const bool ends = exponent == modulo_format::kMaxExponent;
      EXPECT_LE(std::ldexp(double{max_abs}, -exponent), ends ? 0x1p30 : largest) << max_abs;
      if (exponent > modulo_format::kMinExponent) {
        EXPECT_GT(std::ldexp(double{max_abs}, -(exponent - 1)), largest) << max_abs << ": one finer would do";
      }
      EXPECT_LE(exponent, modulo_format::kMaxExponent);
    }
  }
}

TEST(ModuloStep, AFreshBlockCoversItsOwnValues) {
  EXPECT_EQ(first_exponent(k8, 1.0f), -6);
  EXPECT_EQ(first_exponent(k8, 1.0001f), -5);
  EXPECT_EQ(first_exponent(k8, 0.5f), -7);
  EXPECT_EQ(first_exponent(k8, FLT_TRUE_MIN), modulo_format::kMinExponent);
  EXPECT_GT(first_exponent(k8, 0.0f), modulo_format::kMinExponent);
}

TEST(ModuloStep, TheLargestLeavesRoomForThreeExponents) {
  EXPECT_EQ(largest_exponent(k8, 1.0f), -3);
  EXPECT_EQ(largest_exponent(k8, FLT_TRUE_MIN), modulo_format::kMinExponent + 3);
  EXPECT_EQ(largest_exponent(k8, FLT_MAX), modulo_format::kMaxExponent);
  EXPECT_EQ(largest_exponent(k8, 0.0f), first_exponent(k8, 0.0f) + 3);
}

TEST(ModuloStep, RemembersOnlyLegalExponents) {
  ModuloMemory memory;
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

TEST(ModuloStep, TroubleRaisesAndDistanceSteers) {
  EXPECT_EQ(next_exponent(k8, PairStatus::kLeftOut, 0, -8, -8, -8), -6);  // wrapped
  EXPECT_EQ(next_exponent(k8, PairStatus::kLeftOut, 0, -8, -6, -8), -5);  // likewise: the steps are near enough
  EXPECT_EQ(next_exponent(k8, PairStatus::kLeftOut, 0, -8, -9, -8), -7);
  EXPECT_EQ(next_exponent(k8, PairStatus::kLeftOut, 0, -8, -1, -8), -1);  // too far apart
  EXPECT_EQ(next_exponent(k8, PairStatus::kLeftOut, 0, -8, -20, -8), -8);
  const auto after = [&](double steps) {  // the largest difference in steps of 2^-8
    return int{next_exponent(k8, PairStatus::kOk, static_cast<float>(steps * 0x1p-8), -8, -8, -8)};
  };
  EXPECT_EQ(after(127), -6);
  EXPECT_EQ(after(33), -7);
  EXPECT_EQ(after(32), -8);
  EXPECT_EQ(after(17), -8);
  EXPECT_EQ(after(16), -9);
  EXPECT_EQ(after(1), -9);  // one at a time
  EXPECT_EQ(after(0), -9);
}

// Steps of modulo4: 7 in all, so the largest difference takes 3 or 4, and steps 2^4 apart wrap by their rounding alone.
TEST(ModuloStep, OfFourBitsAreFewer) {
  EXPECT_EQ(first_exponent(k4, 1.0f), -2);
  EXPECT_EQ(largest_exponent(k4, 1.0f), 1);
  EXPECT_EQ(next_exponent(k4, PairStatus::kLeftOut, 0, -8, -8, -8), -7);  // wrapped
  EXPECT_EQ(next_exponent(k4, PairStatus::kLeftOut, 0, -8, -5, -8), -5);  // likewise: the steps are near enough
  EXPECT_EQ(next_exponent(k4, PairStatus::kLeftOut, 0, -5, -8, -5), -5);
  EXPECT_EQ(next_exponent(k4, PairStatus::kLeftOut, 0, -8, -4, -8), -4);  // too far apart
  const auto after = [&](double steps) {
    return int{next_exponent(k4, PairStatus::kOk, static_cast<float>(steps * 0x1p-8), -8, -8, -8)};
  };
  EXPECT_EQ(after(7), -7);
  EXPECT_EQ(after(5), -7);
  EXPECT_EQ(after(4), -8);
  EXPECT_EQ(after(3), -8);
  EXPECT_EQ(after(2), -9);
  EXPECT_EQ(after(0), -9);
}

TEST(ModuloStep, NeverBelowTheFloorNorAboveTheCeiling) {
  EXPECT_EQ(next_exponent(k8, PairStatus::kOk, 0, -60, -60, -60), -60);
  EXPECT_EQ(next_exponent(k8, PairStatus::kOk, 1e-30f, -60, -60, -60), -60);
  EXPECT_EQ(next_exponent(k8, PairStatus::kLeftOut, 0, 100, 100, 100), 100);
}

// One snapshot may meet two peers: the one that wrapped must not be forgotten for the one that fitted.
TEST(ModuloStep, ARaiseSinceTheSnapshotStays) {
  EXPECT_EQ(next_exponent(k8, PairStatus::kOk, 0, -8, -8, -7), -7);
  EXPECT_EQ(next_exponent(k8, PairStatus::kLeftOut, 0, -8, -8, -3), -3);
  EXPECT_EQ(next_exponent(k8, PairStatus::kOk, 0, -8, -8, -20), -9) << "encode had to raise it";
}

}  // namespace
}  // namespace starling
