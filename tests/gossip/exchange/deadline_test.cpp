#include "gossip/exchange/deadline.h"

#include <gtest/gtest.h>

#include <vector>

#include "gossip/exchange/round_times.h"
#include "gossip/rng.h"

namespace starling {
namespace {

using std::chrono::milliseconds;

AdaptiveDeadline fed(const std::vector<int>& ms) {
  AdaptiveDeadline deadline(milliseconds(20), milliseconds(500));
  for (int value : ms) deadline.arrived(milliseconds(value));
  return deadline;
}

TEST(AdaptiveDeadline, FollowsMedianAndSpreadWithinItsLimits) {
  struct Case {
    const char* what;
    std::vector<int> arrivals_ms;
    double expected_ms;
  };
  const Case cases[] = {
      {"nothing known: the longest", {}, 500},
      {"too little known: the longest", {10, 10, 10, 10, 10, 10, 10}, 500},
      {"steady: the floor of the spread is a tenth", std::vector<int>(8, 100), 140},
      {"never below the shortest", std::vector<int>(8, 1), 20},
      {"never above the longest", std::vector<int>(8, 900), 500},
      {"median 100, deviation 20", {60, 60, 80, 80, 100, 100, 100, 120, 120, 140, 140}, 180},
      {"two stragglers do not move it", {100, 100, 100, 100, 100, 100, 100, 100, 9000, 9000}, 140},
  };
  for (const Case& c : cases) {
    EXPECT_NEAR(seconds(fed(c.arrivals_ms).current()) * 1e3, c.expected_ms, 1e-6) << c.what;
  }
}

TEST(AdaptiveDeadline, AQuarterCameWithinWhatIsFast) {
  AdaptiveDeadline deadline(milliseconds(1), std::chrono::seconds(1));
  for (int i = 0; i < 7; ++i) deadline.arrived(milliseconds(i < 3 ? 2 : 50));
  EXPECT_EQ(deadline.fast(), Duration::zero()) << "too few";
  EXPECT_FALSE(deadline.known());
  deadline.arrived(milliseconds(50));
  EXPECT_TRUE(deadline.known());
  EXPECT_EQ(deadline.fast(), milliseconds(2));
  EXPECT_EQ(deadline.usual(), milliseconds(50));
}

// Who begins to own something knows how long whole rounds take, so it does not wait the longest deadline.
TEST(RoundTimes, ThePhaseThatIsKnownBoundsTheFirst) {
  RoundTimes times(milliseconds(10), milliseconds(500), std::chrono::seconds(1));
  TimePoint now{};
  times.begin(now);
  EXPECT_EQ(times.first_wait(), milliseconds(500));
  for (int i = 0; i < 8; ++i) times.arrived(1, now + milliseconds(50));
  times.begin(now += std::chrono::seconds(1));
  EXPECT_EQ(times.first_wait(), milliseconds(70)) << "the median and four tenths of it";
  for (int i = 0; i < 8; ++i) times.arrived(0, now + milliseconds(20));
  times.begin(now += std::chrono::seconds(1));
  EXPECT_EQ(times.first_wait(), milliseconds(28));
}

// A deadline of 28 ms for contributions, and of 70 ms for averages.
RoundTimes known_times(TimePoint now) {
  RoundTimes times(milliseconds(10), milliseconds(500), std::chrono::seconds(1));
  times.begin(now);
  for (int i = 0; i < 8; ++i) {
    times.arrived(0, now + milliseconds(20));
    times.arrived(1, now + milliseconds(50));
  }
  times.begin(now);
  return times;
}

TEST(RoundTimes, WhoIsStillMissingIsGivenTheWholeWaitOnceMostHaveCome) {
  const TimePoint now{};
  RoundTimes times = known_times(now);
  EXPECT_EQ(times.next(), now + milliseconds(28));
  times.most_came(now + milliseconds(25));
  EXPECT_FALSE(times.first_due(now + milliseconds(52)));
  EXPECT_TRUE(times.first_due(now + milliseconds(53)));
  times.pass_first(false);
  EXPECT_EQ(times.next(), now + milliseconds(28 + 70)) << "the round is no longer for it";
  times.most_came(now + milliseconds(60));
  EXPECT_EQ(times.next(), now + milliseconds(28 + 70)) << "it is over";
}

TEST(RoundTimes, NobodyIsWaitedForBeyondTheSecondDeadlineWhenMostHaveCome) {
  const TimePoint now{};
  RoundTimes times = known_times(now);
  times.most_came(now + milliseconds(90));
  EXPECT_EQ(times.next(), now + milliseconds(28 + 70));
  EXPECT_EQ(times.second_at(), now + milliseconds(28 + 70));
}

// Who is ahead waits longer, until the others have caught up; but no shorter than anybody.
TEST(RoundTimes, TakingBackAnExtensionLeavesTheWaitSinceMostHaveCome) {
  const TimePoint now{};
  RoundTimes times = known_times(now);
  times.extend();
  times.most_came(now + milliseconds(5));
  EXPECT_EQ(times.next(), now + milliseconds(56));
  times.take_back(now + milliseconds(10));
  EXPECT_EQ(times.next(), now + milliseconds(33));
}

TEST(AdaptiveDeadline, NothingAtAllCountsTwice) {
  AdaptiveDeadline deadline(milliseconds(20), milliseconds(500));
  for (int i = 0; i < 8; ++i) deadline.missed(milliseconds(50));
  EXPECT_NEAR(seconds(deadline.current()), 0.140, 1e-9);
}

TEST(AdaptiveDeadline, ForgetsWhatIsOld) {
  AdaptiveDeadline deadline(milliseconds(20), milliseconds(500));
  for (int i = 0; i < 100; ++i) deadline.arrived(milliseconds(400));
  for (size_t i = 0; i < RobustWindow::kCapacity; ++i) deadline.arrived(milliseconds(50));
  EXPECT_NEAR(seconds(deadline.current()), 0.070, 1e-9);
}

// Soundness C7: a partner turns three times slower for good. Fed by late arrivals too the deadline follows;
// fed only by those that made it, it would go on missing.
TEST(AdaptiveDeadline, LateArrivalsKeepItFromMissingForEver) {
  const auto answered = [](bool record_late) {
    Rng rng(1);
    AdaptiveDeadline deadline(milliseconds(1), milliseconds(10'000));
    int in_time = 0;
    for (int i = 0; i < 2000; ++i) {
      const double usual = i < 200 ? 0.1 : 0.3;
      const Duration took = from_seconds(usual * (0.7 + 0.6 * rng.uniform()));
      const bool made_it = took <= deadline.current();
      if (made_it || record_late) deadline.arrived(took);
      if (i >= 400) in_time += made_it;
    }
    return in_time / 1600.0;
  };
  EXPECT_GT(answered(true), 0.9);
  EXPECT_LT(answered(false), 0.3);
}

}  // namespace
}  // namespace starling
