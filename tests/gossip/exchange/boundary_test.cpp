// What an exchange that is made once a boundary asks of its agent.
#include "gossip/exchange/boundary.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

// An exchange that begins, or finds nobody.
struct Begins {
  bool finds = true;
  int begun = 0, retracted = 0;
  bool begin() {
    ++begun;
    return finds;
  }
  void retract() { ++retracted; }
};

class OneExchangeTest : public testing::Test {
 protected:
  Due next(bool retries = true) { return one_.next(boundary_, retries, exchange_); }
  void publish() {
    ASSERT_EQ(next(), Due::kPublish);
    boundary_.published = true;
  }
  // The exchange ended, and what it brought was applied.
  void apply(bool mixed) {
    ASSERT_EQ(next(), Due::kApply);
    boundary_.mixed = mixed;
  }

  Boundary boundary_{.number = 1};
  Begins exchange_;
  OneExchange one_;
};

TEST_F(OneExchangeTest, WhatItMixedEndsTheBoundary) {
  publish();
  EXPECT_EQ(exchange_.retracted, 1);
  EXPECT_EQ(next(), Due::kWait);
  apply(true);
  EXPECT_EQ(next(), Due::kSteps);
  EXPECT_EQ(exchange_.begun, 1);
  boundary_ = {.number = 2};
  publish();
  EXPECT_EQ(next(), Due::kWait);
}

TEST_F(OneExchangeTest, AfterAFailureItAsksAsOftenAsAttemptsAreAllowed) {
  publish();
  for (uint32_t i = 0; i < kAttemptsMax; ++i) {
    EXPECT_EQ(next(), Due::kWait);
    apply(false);
  }
  EXPECT_EQ(next(), Due::kSteps);
  EXPECT_EQ(exchange_.begun, kAttemptsMax);
}

TEST_F(OneExchangeTest, ARoundIsNotTriedAgain) {
  publish();
  EXPECT_EQ(next(false), Due::kWait);
  EXPECT_EQ(next(false), Due::kApply);
  EXPECT_EQ(next(false), Due::kSteps);
}

TEST_F(OneExchangeTest, NobodyWaitsForAnExchangeBesideTheSteps) {
  boundary_.waits = false;
  publish();
  EXPECT_EQ(next(), Due::kSteps);
  EXPECT_EQ(exchange_.begun, 1);
}

TEST_F(OneExchangeTest, WithoutAPartnerTheStepsFollow) {
  exchange_.finds = false;
  publish();
  EXPECT_EQ(next(), Due::kSteps);
}

TEST_F(OneExchangeTest, AnAgentThatLeavesTriesOnce) {
  boundary_.closing = true;
  publish();
  EXPECT_EQ(next(), Due::kWait);
  apply(false);
  EXPECT_EQ(next(), Due::kSteps);
}

// As the second exchange of a PairwiseFinalizer: the first one asked for the snapshot.
TEST_F(OneExchangeTest, WhatWasPublishedForAnotherServes) {
  boundary_.published = true;
  EXPECT_EQ(next(), Due::kWait);
  EXPECT_EQ(exchange_.retracted, 0);
}

}  // namespace
}  // namespace starling
