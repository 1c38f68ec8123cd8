#include "gossip/exchange/guard.h"

#include <gtest/gtest.h>

#include <limits>

#include "gossip/exchange/coefficients.h"

namespace starling {
namespace {

TEST(ClipGuard, IsOffUntilItKnowsWhatIsUsual) {
  ClipGuard guard(3);
  for (int i = 0; i < 7; ++i) guard.record(1);
  EXPECT_EQ(guard.scale(1000), 1);
  guard.record(1);
  EXPECT_EQ(guard.scale(3), 1);
  EXPECT_EQ(guard.scale(6), 0.5);
  EXPECT_LT(guard.scale(1000), ClipGuard::kScaleMin);
}

TEST(ClipGuard, ZeroTurnsItOff) {
  ClipGuard guard(0);
  for (int i = 0; i < 20; ++i) guard.record(1);
  EXPECT_EQ(guard.scale(1e9), 1);
}

TEST(ClipGuard, WhatIsNoNumberIsRefusedAndNotRemembered) {
  ClipGuard guard(3);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(guard.scale(nan), 0);
  EXPECT_EQ(guard.scale(infinity), 0);
  for (int i = 0; i < 20; ++i) guard.record(infinity);
  for (int i = 0; i < 8; ++i) guard.record(1);
  EXPECT_EQ(guard.scale(6), 0.5);
}

TEST(ClipGuard, ASwarmThatMovedApartBecomesUsual) {
  ClipGuard guard(3);
  for (size_t i = 0; i < RobustWindow::kCapacity; ++i) guard.record(1);
  EXPECT_LT(guard.scale(50), ClipGuard::kScaleMin);
  for (size_t i = 0; i < RobustWindow::kCapacity / 2 + 1; ++i) guard.record(50);
  EXPECT_EQ(guard.scale(50), 1);
}

TEST(ClipGuard, AllAlikeSaysNothingAboutTheFirstDifference) {
  ClipGuard guard(3);
  for (int i = 0; i < 20; ++i) guard.record(0);
  EXPECT_EQ(guard.scale(0), 1);
  EXPECT_EQ(guard.scale(5), 1);
}

TEST(PairCoefficients, MassesDivideTheDifferenceAndTheSumStays) {
  struct Case {
    double offer, proposer_mass, acceptor_mass, proposer, acceptor;
  };
  const Case cases[] = {
      {1, 1, 1, 0.5, 0.5},     {0.25, 1, 1, 0.125, 0.125},  {1, 1, 3, 0.75, 0.25},
      {1, 3, 1, 0.25, 0.75},   {1, 1, 8, 8.0 / 9, 1.0 / 9}, {1, 1, 8e6, 8.0 / 9, 1e-6 / 9},
      {1, 8e6, 1, 1e-6 / 9, 8.0 / 9},
  };
  for (const Case& c : cases) {
    const PairCoefficients both = pair_coefficients(c.offer, c.proposer_mass, c.acceptor_mass);
    EXPECT_NEAR(both.proposer, c.proposer, 1e-6 * c.proposer);
    EXPECT_NEAR(both.acceptor, c.acceptor, 1e-6 * c.acceptor);
    const double proposer_moves = c.proposer_mass * static_cast<double>(both.proposer);
    EXPECT_NEAR(c.acceptor_mass * static_cast<double>(both.acceptor) / proposer_moves, 1, 2e-7);
  }
}

TEST(PairCoefficients, PowerOfTwoMassesConserveToTheLastBit) {
  for (double offer : {1.0, 0.5, 0.3, 0.9}) {
    for (double mass : {0.125, 0.5, 1.0, 2.0, 4.0, 64.0}) {
      const PairCoefficients both = pair_coefficients(offer, 1, mass);
      EXPECT_EQ(static_cast<double>(both.proposer), mass * static_cast<double>(both.acceptor));
    }
  }
}

TEST(PairCoefficients, InsaneMassesAreKnown) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (double mass : {0.0, -1.0, infinity, -infinity, infinity - infinity, 1e-300, 1e300}) {
    EXPECT_FALSE(mass_is_sane(mass)) << mass;
  }
  for (double mass : {1e-12, 1.0, 60'000.0, 1e12}) EXPECT_TRUE(mass_is_sane(mass)) << mass;
}

}  // namespace
}  // namespace starling
