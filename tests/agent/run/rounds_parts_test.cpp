// The parts of the round machine that only watch the clock: Settling, Recovery.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "agent/run/recovery.h"
#include "agent/run/settling.h"

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{};

TEST(Settling, AgreesWhenTheFarthestIsWithinTheBall) {
  Settling settling(0.1, seconds(10));
  settling.begin(kStart);
  EXPECT_TRUE(settling.active());
  EXPECT_TRUE(settling.agreed({.members = 3, .farthest = 0.025}));
  EXPECT_FALSE(settling.agreed({.members = 3, .farthest = 0.026}));
  EXPECT_FALSE(settling.agreed({.members = 3, .farthest = NAN}));
  EXPECT_FALSE(settling.agreed({.members = 3, .unknown = 1, .farthest = 0.01})) << "one said nothing of its model";
  settling.abandon();
  EXPECT_FALSE(settling.active());
}

TEST(Settling, LastsNoLongerThanItMay) {
  Settling settling(0.1, seconds(10));
  settling.begin(kStart + seconds(7));
  EXPECT_FALSE(settling.overdue(kStart + seconds(17) - milliseconds(1), 0));
  EXPECT_TRUE(settling.overdue(kStart + seconds(17), 0));
  EXPECT_FALSE(settling.overdue(kStart + seconds(19) - milliseconds(1), 100)) << "news of many takes longer";
  EXPECT_TRUE(settling.overdue(kStart + seconds(19), 100));
}

std::vector<Apart> away(const std::vector<double>& distances) {
  std::vector<Apart> others;
  for (const double distance : distances) others.push_back({PeerId(), distance});
  return others;
}

// One of eight may be broken, two of sixteen.
TEST(Settling, TakesForFarWhoIsSoManyTimesFartherThanAllThatAreNotBroken) {
  const Settling settling(0.1, seconds(10));
  EXPECT_EQ(settling.far({.members = 7, .others = away({0.2, 1, 0.5, 4, 1e6, 2, 0.1})}, 3), 3 * 4);
  std::vector<double> of_fifteen(13, 0.5);
  of_fifteen.insert(of_fifteen.end(), {1e6, 1e7});
  EXPECT_EQ(settling.far({.members = 15, .others = away(of_fifteen)}, 3), 3 * 0.5);
  EXPECT_EQ(settling.far({.members = 7, .others = away({1, 2, 3})}, 3), std::nullopt) << "most have told nothing";
  EXPECT_EQ(settling.far({.members = 7, .others = away(std::vector<double>(7, 1e-9))}, 3), 0.1)
      << "as near as it need be";
  EXPECT_EQ(settling.far({.members = 2, .others = away({9, 2})}, 3), 10 * 2) << "of three, one distance says little";
  EXPECT_EQ(settling.far({.members = 1, .others = away({9})}, 3), INFINITY) << "of two, nobody knows which one lies";
}

TEST(Recovery, HalvesTheRateUntilStepsWereGoodForAWhile) {
  Recovery recovery;
  EXPECT_EQ(recovery.rate_scale(), 1);
  EXPECT_TRUE(recovery.fell_sick(kStart));
  EXPECT_EQ(recovery.rate_scale(), 0.5);
  recovery.took_good_steps(kStart + seconds(1));
  recovery.took_good_steps(kStart + seconds(30));
  EXPECT_EQ(recovery.rate_scale(), 0.5);
  recovery.took_good_steps(kStart + seconds(30) + milliseconds(1));
  EXPECT_EQ(recovery.rate_scale(), 1);
}

TEST(Recovery, TheFirstGoodStepsEndNothingHoweverLateTheyCome) {
  Recovery recovery;
  EXPECT_TRUE(recovery.fell_sick(kStart));
  recovery.took_good_steps(kStart + seconds(60));  // the restore took that long
  EXPECT_EQ(recovery.rate_scale(), 0.5);
  recovery.took_good_steps(kStart + seconds(61));
  EXPECT_EQ(recovery.rate_scale(), 1);
}

TEST(Recovery, GivesUpWhenSickTooOftenInARow) {
  Recovery recovery;
  for (uint32_t i = 0; i < kSickInARowMax; ++i) EXPECT_TRUE(recovery.fell_sick(kStart));
  EXPECT_EQ(recovery.rate_scale(), 0.125);
  EXPECT_FALSE(recovery.fell_sick(kStart));

  Recovery well_between;
  for (int i = 0; i < 10; ++i) {
    const TimePoint at = kStart + i * seconds(40);
    EXPECT_TRUE(well_between.fell_sick(at));
    well_between.took_good_steps(at + seconds(1));
    well_between.took_good_steps(at + seconds(35));
  }
}

}  // namespace
}  // namespace starling
