#include "gossip/membership/member_clocks.h"

#include <gtest/gtest.h>

#include "gossip/limits.h"
#include "tests/gossip/membership/membership_support.h"
#include "tests/support/fake_clock.h"

namespace starling {
namespace {

constexpr uint64_t kNow = 1'800'000'000, kYear = 365 * 24 * 3600;

class MemberClocksTest : public ::testing::Test {
 protected:
  MemberClocksTest() { clock.unix_s = kNow; }
  void pass(std::chrono::seconds time) {
    clock.advance(time);
    clock.unix_s += static_cast<uint64_t>(time.count());
  }

  FakeClock clock;
  MemberClocks clocks{clock};
};

TEST_F(MemberClocksTest, AloneTheOwnClockDecides) {
  EXPECT_EQ(clocks.now(), kNow);
  EXPECT_EQ(clocks.earliest(), 0u);
  EXPECT_EQ(clocks.ahead_s(), 0);
  clocks.hear(peer_of(1), 0);
  EXPECT_EQ(clocks.count(), 0u) << "it did not tell";
  pass(std::chrono::hours(5));
  EXPECT_EQ(clocks.now(), kNow + 5 * 3600);
}

TEST_F(MemberClocksTest, AreHeardOfTwoOthersOrOfAllOrAfterAWhile) {
  const auto begin_anew = [&] {
    clocks.forget_all();
    for (const size_t others : {0u, 1u, 9u}) EXPECT_FALSE(clocks.heard(others));
    pass(MemberClocks::kAnswer);
  };
  begin_anew();
  for (const size_t others : {0u, 1u, 9u}) EXPECT_FALSE(clocks.heard(others)) << "none has told";
  clocks.hear(peer_of(1), kNow);
  EXPECT_TRUE(clocks.heard(1));
  EXPECT_FALSE(clocks.heard(2));
  clocks.hear(peer_of(2), kNow);
  EXPECT_TRUE(clocks.heard(9));
  begin_anew();
  pass(MemberClocks::kPatience - MemberClocks::kAnswer);
  for (const size_t others : {0u, 1u, 9u}) EXPECT_TRUE(clocks.heard(others)) << "long enough";
}

TEST_F(MemberClocksTest, BesideOneOtherTheOwnClockDecides) {
  for (const uint64_t other : {uint64_t{1}, kNow - kYear, kNow + kYear, UINT64_MAX}) {
    clocks.hear(peer_of(1), other);
    EXPECT_EQ(clocks.now(), kNow) << other;
    EXPECT_EQ(clocks.earliest(), 0u) << other;
  }
  clocks.hear(peer_of(1), kNow - kYear);
  pass(std::chrono::seconds(1));
  EXPECT_EQ(clocks.ahead_s(), static_cast<int64_t>(kYear)) << "and it is told so";
}

TEST_F(MemberClocksTest, TwoOthersCorrectTheOwnClock) {
  for (const uint64_t own : {uint64_t{1}, kNow - kYear, kNow + kYear, UINT64_MAX}) {
    clock.unix_s = own;
    clocks.hear(peer_of(1), kNow);
    clocks.hear(peer_of(2), kNow + 2);
    EXPECT_EQ(clocks.now(), own < kNow ? kNow : kNow + 2) << own;
  }
  clock.unix_s = kNow + 1;
  EXPECT_EQ(clocks.now(), kNow + 1);
}

TEST_F(MemberClocksTest, OneLiarOfThreeMovesNothing) {
  clocks.hear(peer_of(1), kNow + 3);
  for (const uint64_t lie : {uint64_t{0}, uint64_t{1}, kNow - kYear, kNow + kYear, UINT64_MAX}) {
    clocks.hear(peer_of(2), lie);
    pass(std::chrono::seconds(1));
    EXPECT_NEAR(static_cast<double>(clocks.now()), static_cast<double>(clock.unix_s), 3) << lie;
  }
}

TEST_F(MemberClocksTest, TwoLiarsOfFiveMoveNothing) {
  clocks.hear(peer_of(1), kNow + 3);
  clocks.hear(peer_of(2), kNow - 3);
  for (const uint64_t one : {uint64_t{1}, kNow - kYear, kNow + kYear, UINT64_MAX}) {
    for (const uint64_t other : {uint64_t{1}, kNow - kYear, kNow + kYear, UINT64_MAX}) {
      clocks.hear(peer_of(3), one);
      clocks.hear(peer_of(4), other);
      pass(std::chrono::seconds(1));
      EXPECT_NEAR(static_cast<double>(clocks.now()), static_cast<double>(clock.unix_s), 30) << one << ' ' << other;
      clocks.hear(peer_of(1), clock.unix_s + 3);
      clocks.hear(peer_of(2), clock.unix_s - 3);
    }
  }
}

TEST_F(MemberClocksTest, OfTwoAgainstTwoTheOwnClockDecides) {
  clocks.hear(peer_of(1), kNow + 1);
  clocks.hear(peer_of(2), kNow + kYear);
  clocks.hear(peer_of(3), kNow + kYear);
  EXPECT_EQ(clocks.now(), kNow + 1) << "the middle two are this one and the one after it";
  clocks.hear(peer_of(4), kNow + kYear);
  EXPECT_EQ(clocks.now(), kNow + kYear) << "three of five";
  EXPECT_EQ(clocks.earliest(), kNow + kYear);
}

TEST_F(MemberClocksTest, AClockCountsForTenMinutes) {
  clock.unix_s = kNow + kYear;
  clocks.hear(peer_of(1), kNow);
  clocks.hear(peer_of(2), kNow);
  pass(std::chrono::minutes(10));
  EXPECT_EQ(clocks.now(), kNow + 600);
  pass(std::chrono::seconds(1));
  EXPECT_EQ(clocks.now(), kNow + kYear + 601) << "nobody answers";
}

TEST_F(MemberClocksTest, ToSetTheOwnClockRightMovesNothing) {
  clock.unix_s = kNow + kYear;
  clocks.hear(peer_of(1), kNow);
  clocks.hear(peer_of(2), kNow);
  EXPECT_EQ(clocks.now(), kNow);
  EXPECT_EQ(clocks.earliest(), kNow);
  clock.unix_s = kNow - 5;
  EXPECT_EQ(clocks.now(), kNow);
  EXPECT_EQ(clocks.ahead_s(), -5);
}

TEST_F(MemberClocksTest, ASimulationHasNoWallClock) {
  clock.unix_s = 0;
  clocks.hear(peer_of(1), kNow);
  clocks.hear(peer_of(2), kNow);
  EXPECT_EQ(clocks.now(), 0u);
}

TEST_F(MemberClocksTest, AreBounded) {
  for (uint32_t i = 1; i <= kMembersMax + 10; ++i) clocks.hear(peer_of(i), kNow);
  EXPECT_EQ(clocks.count(), kMembersMax);
}

// Of three machines one is a year behind. Each of the others has that one and a right one beside it.
TEST_F(MemberClocksTest, ARightClockBesideAWrongOneIsNotCalledWrong) {
  for (const uint64_t wrong : {kNow - kYear, kNow + kYear}) {
    clocks.hear(peer_of(1), kNow);
    clocks.hear(peer_of(2), wrong);
    pass(std::chrono::seconds(1));
    EXPECT_EQ(clocks.ahead_s(), 0) << wrong;
  }
  clock.unix_s += kYear;
  EXPECT_LE(clocks.ahead_s(), 1) << "two of three are of the future";
  clocks.forget(peer_of(2));
  EXPECT_EQ(clocks.count(), 1u);
  EXPECT_GE(clocks.ahead_s(), static_cast<int64_t>(kYear));
  clocks.forget_all();
  EXPECT_EQ(clocks.ahead_s(), 0);
}

}  // namespace
}  // namespace starling
