#include "agent/run/cadence.h"

#include <gtest/gtest.h>

#include <chrono>

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{};

TEST(Cadence, ShortEvaluationsComeAsOftenAsAskedFor) {
  Cadence cadence(seconds(30), seconds(5));
  EXPECT_FALSE(cadence.evaluation_due(kStart)) << "not started";
  cadence.start(kStart);
  EXPECT_TRUE(cadence.evaluation_due(kStart));
  cadence.evaluated(kStart, kStart + milliseconds(100));
  EXPECT_FALSE(cadence.evaluation_due(kStart + milliseconds(5099)));
  EXPECT_TRUE(cadence.evaluation_due(kStart + milliseconds(5100)));
}

TEST(Cadence, ASlowFirstEvaluationDoesNotPutOffTheNext) {
  Cadence cadence(seconds(30), seconds(5));
  cadence.start(kStart);
  cadence.evaluated(kStart, kStart + seconds(2));
  EXPECT_FALSE(cadence.evaluation_due(kStart + milliseconds(6999)));
  EXPECT_TRUE(cadence.evaluation_due(kStart + seconds(7)));
  cadence.evaluated(kStart + seconds(7), kStart + seconds(9));
  EXPECT_FALSE(cadence.evaluation_due(kStart + milliseconds(46999))) << "the second one's duration counts";
  EXPECT_TRUE(cadence.evaluation_due(kStart + seconds(47)));
}

TEST(Cadence, ALongFirstEvaluationIsFollowedByStepsForAsLong) {
  Cadence cadence(seconds(30), seconds(5));
  cadence.start(kStart);
  cadence.evaluated(kStart, kStart + seconds(60));
  EXPECT_FALSE(cadence.evaluation_due(kStart + milliseconds(119999)));
  EXPECT_TRUE(cadence.evaluation_due(kStart + seconds(120)));
}

TEST(Cadence, LongEvaluationsTakeATwentiethOfTheTime) {
  Cadence cadence(seconds(30), milliseconds(100));
  cadence.start(kStart);
  cadence.evaluated(kStart, kStart);
  TimePoint now = kStart;
  Duration evaluating{};
  for (int i = 1; i <= 50; ++i) {
    while (!cadence.evaluation_due(now)) now += milliseconds(10);
    const TimePoint began = now;
    now += i * milliseconds(70);
    evaluating += now - began;
    cadence.evaluated(began, now);
  }
  while (!cadence.evaluation_due(now)) now += milliseconds(10);
  EXPECT_LE(evaluating, (now - kStart) / 20);
  EXPECT_GE(evaluating, (now - kStart) / 21) << "nor rarer than needed";
}

TEST(Cadence, ACheckpointThatFailedIsTriedAgainSoon) {
  for (const Duration every : {Duration(std::chrono::hours(1)), Duration::zero()}) {
    Cadence cadence(every, Duration::zero());
    cadence.start(kStart);
    cadence.checkpoint_failed(kStart);
    EXPECT_FALSE(cadence.checkpoint_due(kStart + seconds(9)));
    EXPECT_TRUE(cadence.checkpoint_due(kStart + seconds(10)));
    cadence.checkpoint_saved(kStart + seconds(10));
    EXPECT_FALSE(cadence.checkpoint_due(kStart + seconds(3000)));
  }
}

TEST(Cadence, BothAreDueAtTheStart) {
  Cadence cadence(seconds(10), seconds(3));
  EXPECT_FALSE(cadence.checkpoint_due(kStart));
  EXPECT_FALSE(cadence.evaluation_due(kStart));
  cadence.start(kStart);
  EXPECT_TRUE(cadence.checkpoint_due(kStart));
  EXPECT_TRUE(cadence.evaluation_due(kStart));
}

TEST(Cadence, CountsFromTheEndOfTheLastOne) {
  Cadence cadence(seconds(10), seconds(3));
  cadence.start(kStart);
  cadence.checkpoint_saved(kStart + seconds(5));
  cadence.evaluated(kStart + seconds(6), kStart + seconds(6));
  EXPECT_FALSE(cadence.checkpoint_due(kStart + seconds(15) - milliseconds(1)));
  EXPECT_TRUE(cadence.checkpoint_due(kStart + seconds(15)));
  EXPECT_FALSE(cadence.evaluation_due(kStart + seconds(9) - milliseconds(1)));
  EXPECT_TRUE(cadence.evaluation_due(kStart + seconds(9)));
}

TEST(Cadence, ZeroMeansNoEvaluationAndOneCheckpoint) {
  Cadence cadence(Duration::zero(), Duration::zero());
  cadence.start(kStart);
  EXPECT_FALSE(cadence.evaluation_due(kStart + std::chrono::hours(1)));
  EXPECT_TRUE(cadence.checkpoint_due(kStart));
  cadence.checkpoint_saved(kStart);
  EXPECT_FALSE(cadence.checkpoint_due(kStart + std::chrono::hours(1)));
}

}  // namespace
}  // namespace starling
