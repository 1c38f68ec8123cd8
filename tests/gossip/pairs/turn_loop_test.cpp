// How many turns a boundary has.
#include "gossip/pairs/turn_loop.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

using std::chrono::milliseconds;

class TurnLoopTest : public testing::Test {
 protected:
  TurnLoopTest() { EXPECT_TRUE(loop_.begins(boundary_)); }
  bool goes_on() const { return loop_.goes_on(boundary_, facts_); }
  // One attempt, which mixed.
  void turn() {
    loop_.tried();
    ++facts_.turns;
    boundary_.published = true;
  }
  Due end() { return loop_.end(boundary_, facts_); }
  void next_boundary() {
    boundary_ = {.number = boundary_.number + 1, .steps = boundary_.steps};
    EXPECT_TRUE(loop_.begins(boundary_));
  }

  Boundary boundary_{.number = 1};
  TurnFacts facts_{.wait_max = milliseconds(100)};
  TurnLoop loop_;
};

TEST_F(TurnLoopTest, AsManyTurnsAreMadeAsAreDue) {
  for (const uint64_t due : {1u, 2u, 3u}) {
    facts_.due = due;
    for (uint64_t i = 0; i < due; ++i) {
      EXPECT_TRUE(goes_on());
      turn();
    }
    EXPECT_FALSE(goes_on());
    EXPECT_EQ(end(), Due::kApply);
    EXPECT_TRUE(loop_.ended());
    next_boundary();
    EXPECT_FALSE(loop_.ended());
  }
}

TEST_F(TurnLoopTest, AttemptsThatCameToNothingEnd) {
  for (uint32_t i = 0; i < kAttemptsMax; ++i) {
    EXPECT_TRUE(goes_on());
    loop_.tried();
  }
  EXPECT_FALSE(goes_on());
}

TEST_F(TurnLoopTest, TwoThatWaitAreServedBeyondAndOneCountsAhead) {
  facts_.waiting = 5;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(goes_on());
    turn();
  }
  EXPECT_FALSE(goes_on());
  end();
  next_boundary();
  facts_.waiting = 0;
  EXPECT_FALSE(goes_on());
  end();
  next_boundary();
  EXPECT_TRUE(goes_on());
}

TEST_F(TurnLoopTest, BySchedulePartnersThatRestedAreNotDueAndOpenSlotsAre) {
  facts_.due = 2;
  facts_.ahead = 0;
  turn();
  facts_.rested = 1;
  EXPECT_FALSE(goes_on());
  facts_.slots_open = 1;
  EXPECT_TRUE(goes_on());
  boundary_.published = false;  // what the schedule says is of an earlier boundary
  facts_.slots_open = 0;
  EXPECT_TRUE(goes_on());
}

TEST_F(TurnLoopTest, ByScheduleWhatIsAheadCountsInTheNextBoundary) {
  facts_.ahead = 2;
  for (int i = 0; i < 3; ++i) turn();
  end();
  next_boundary();
  facts_.due = 3;
  EXPECT_TRUE(goes_on());
  facts_.due = 2;
  EXPECT_FALSE(goes_on());
}

TEST_F(TurnLoopTest, BeforeLongStepsAPayloadIsLeftBehind) {
  boundary_.steps = milliseconds(100);
  EXPECT_EQ(end(), Due::kApply);
  next_boundary();
  boundary_.steps = milliseconds(101);
  EXPECT_EQ(end(), Due::kPublishForSteps);
  next_boundary();
  boundary_.closing = true;
  EXPECT_FALSE(goes_on());
  EXPECT_EQ(end(), Due::kApply) << "an agent that leaves serves nobody any more";
}

}  // namespace
}  // namespace starling
