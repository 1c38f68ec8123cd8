#include "agent/run/swarm_stop.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

constexpr TimePoint kNow{std::chrono::hours(1)};

TEST(SwarmStop, IsRaisedByAMemberOrByAnEarlierLife) {
  SwarmStop stop(2000, 0);
  EXPECT_EQ(stop.steps(), 2000u);
  EXPECT_EQ(stop.raised(), 0u);
  EXPECT_FALSE(stop.hear(0, 0, kNow));
  EXPECT_FALSE(stop.hear(2000, 0, kNow));
  EXPECT_TRUE(stop.hear(3000, 0, kNow));
  EXPECT_EQ(stop.steps(), 3000u);
  EXPECT_EQ(stop.raised(), 3000u);
  EXPECT_FALSE(stop.hear(2500, 0, kNow + std::chrono::hours(1))) << "never lowered";
  EXPECT_EQ(SwarmStop(2000, 5000).raised(), 5000u);
  EXPECT_EQ(SwarmStop(2000, 500).steps(), 2000u);
}

TEST(SwarmStop, ClaimsMoveItTenfoldAtATimeAndSeldom) {
  SwarmStop stop(100, 0);
  EXPECT_TRUE(stop.hear(300, 0, kNow));
  EXPECT_TRUE(stop.hear(400, 0, kNow + std::chrono::minutes(1))) << "raised again soon";
  EXPECT_TRUE(stop.hear(UINT64_MAX, 0, kNow + std::chrono::minutes(2)));
  EXPECT_EQ(stop.steps(), 1000u);
  EXPECT_FALSE(stop.hear(UINT64_MAX, 0, kNow + SwarmStop::kRiseEvery - std::chrono::seconds(1)));
  EXPECT_TRUE(stop.hear(10000, 0, kNow + SwarmStop::kRiseEvery));
  EXPECT_EQ(stop.steps(), 10000u);
}

// Its model tells how far the run is, whatever the settings that it adopted say.
TEST(SwarmStop, OfARunThatWasRaisedMoreThanTenfoldANewcomerTakesTheEnd) {
  SwarmStop stop(2000, 0);
  EXPECT_TRUE(stop.hear(30000, 12000, kNow));
  EXPECT_EQ(stop.steps(), 30000u);
}

TEST(SwarmStop, OfASwarmThatNeverStopsThereIsNone) {
  SwarmStop stop(0, 500);
  EXPECT_EQ(stop.steps(), 0u);
  EXPECT_FALSE(stop.hear(1000, 0, kNow));
  EXPECT_EQ(stop.raised(), 0u);
}

TEST(SwarmStop, WhatCannotBeIsRefusedWithTheRemedy) {
  EXPECT_EQ(problem_of_stop(4000, 2000, 2000), "");
  EXPECT_EQ(problem_of_stop(2000, 2000, 2000), "");
  EXPECT_EQ(problem_of_stop(20000, 2000, 2000), "");
  EXPECT_NE(problem_of_stop(20010, 2000, 2000).find("write 20000"), std::string::npos);
  EXPECT_NE(problem_of_stop(1000, 2000, 4000).find("step 4000 now; leave the flag out"), std::string::npos);
  EXPECT_NE(problem_of_stop(0, 2000, 2000).find("cannot be made endless"), std::string::npos);
  EXPECT_NE(problem_of_stop(3000, 0, 0).find("until Ctrl-C"), std::string::npos);
}

}  // namespace
}  // namespace starling
