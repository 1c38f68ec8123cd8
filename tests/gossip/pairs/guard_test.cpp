#include "gossip/pairs/guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "gossip/exchange/coefficients.h"
#include "gossip/exchange/stagnation_check.h"
#include "gossip/pairs/quant_step_backoff.h"
#include "gossip/pairs/settling_guard.h"
#include "tests/gossip/exchange/harness.h"

namespace starling {
namespace {

using exchange_test::test_peer;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// One meeting with each of five peers.
void meet_all(ClipGuard& guard, double distance, double drift, int rounds = 1) {
  for (int i = 0; i < rounds; ++i) {
    for (uint8_t tag = 1; tag <= 5; ++tag) (void)guard.judge(test_peer(tag), distance, drift);
  }
}

TEST(ClipGuard, AllowsThreeTimesTheUsual) {
  ClipGuard guard(3);
  meet_all(guard, 1, 0.1, 2);
  EXPECT_EQ(guard.scale(3, 0.1), 1);
  EXPECT_EQ(guard.scale(6, 0.1), 0.5);
  EXPECT_DOUBLE_EQ(guard.scale(30, 0.1), 0.1);
  EXPECT_DOUBLE_EQ(guard.scale(60, 0.1), 0.05 / 2) << "beyond ten times as much, the less the farther it is";
  EXPECT_DOUBLE_EQ(guard.scale(3e6, 0.1), 1e-6 / 1e5) << "but it counts, however far";
}

TEST(ClipGuard, KnowsOnlyTheOwnStepsAtFirst) {
  ClipGuard guard(3);
  EXPECT_EQ(guard.scale(1e9, 0), 1) << "not even these";
  EXPECT_EQ(guard.scale(8, 1), 1);
  EXPECT_EQ(guard.scale(16, 1), 0.5);
  for (uint8_t tag = 1; tag <= 7; ++tag) (void)guard.judge(test_peer(tag), 0.1, 1);
  EXPECT_EQ(guard.scale(16, 1), 0.5);
  (void)guard.judge(test_peer(8), 0.1, 1);
  EXPECT_EQ(guard.scale(6, 1), 0.5);
}

TEST(ClipGuard, ZeroTurnsItOff) {
  ClipGuard guard(0);
  meet_all(guard, 1, 1, 4);
  EXPECT_EQ(guard.judge(test_peer(1), 1e9, 1), 1);
}

TEST(ClipGuard, WhatIsNoNumberIsRefusedAndNotRemembered) {
  ClipGuard guard(3);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(guard.judge(test_peer(9), i % 2 == 0 ? kNan : INFINITY, 1), 0);
  for (uint8_t tag = 6; tag <= 11; ++tag) {  // nor of more peers than the others are
    for (int i = 0; i < 2; ++i) EXPECT_EQ(guard.judge(test_peer(tag), INFINITY, 1), 0);
  }
  meet_all(guard, 1, 0.1, 2);
  EXPECT_EQ(guard.scale(6, 0.1), 0.5);
}

// A median of what was accepted would stay where it was.
TEST(ClipGuard, StepsThatGrowMakeGreaterDistancesUsual) {
  ClipGuard guard(3);
  meet_all(guard, 1e-6, 1e-6, 20);
  EXPECT_EQ(guard.scale(3, 1), 1);
}

// Far from most: it restarts, or was cut off, or the swarm moved apart.
TEST(ClipGuard, WhoIsFarFromMostTakesWhatTheyBring) {
  ClipGuard guard(3);
  meet_all(guard, 1, 0.1, 4);
  EXPECT_DOUBLE_EQ(guard.scale(60, 0.1), 0.025);
  meet_all(guard, 60, 0.1, 5);
  EXPECT_EQ(guard.scale(60, 0.1), 1);
  ClipGuard restarted(3);
  meet_all(restarted, 60, 0.1, 2);
  EXPECT_EQ(restarted.scale(60, 0.1), 1);
}

// However often they come.
TEST(ClipGuard, ThreeOfSevenThatAreFarDoNotMakeTheirDistanceUsual) {
  ClipGuard guard(3);
  for (int i = 0; i < 200; ++i) {
    for (uint8_t tag = 1; tag <= 7; ++tag) {
      for (int k = 0; k < (tag <= 3 ? 5 : 1); ++k) (void)guard.judge(test_peer(tag), tag <= 3 ? 1e6 : 1, 0.1);
    }
  }
  EXPECT_EQ(guard.scale(6, 0.1), 0.5);
}

TEST(ClipGuard, OneThatReturnsWhatItGotDoesNotMakeTheOthersFar) {
  ClipGuard guard(3);
  for (int i = 0; i < 10; ++i) {
    for (uint8_t tag = 1; tag <= 4; ++tag) (void)guard.judge(test_peer(tag), tag == 1 ? 0 : 1, 0.1);
  }
  EXPECT_EQ(guard.scale(3, 0.1), 1);
}

// Ten meetings that move both by a hundredth of the distance, which stays what it is.
int refused_of_ten(ClipGuard& guard, const PeerId& peer, double distance) {
  int refused = 0;
  for (int i = 0; i < 10; ++i) {
    const bool passed = guard.judge(peer, distance, 0.1) > 0;
    if (passed) guard.drawn(peer, distance, 0.01);
    refused += !passed;
  }
  return refused;
}

TEST(ClipGuard, WithFewerThanThreePeersNobodyIsRefused) {
  ClipGuard guard(3);
  (void)guard.judge(test_peer(2), 1, 0.1);
  EXPECT_EQ(refused_of_ten(guard, test_peer(1), 100), 0);
  (void)guard.judge(test_peer(3), 1, 0.1);
  EXPECT_GT(refused_of_ten(guard, test_peer(1), 100), 4) << "a third one tells";
  guard.forget(test_peer(3));
  EXPECT_EQ(refused_of_ten(guard, test_peer(1), 100), 0) << "and is gone";
}

// Those of a ring that was another before.
TEST(ClipGuard, ForgetsWhomItMeetsNoMore) {
  ClipGuard guard(3);
  meet_all(guard, 1, 0.1, 4);
  for (int i = 0; i < 40; ++i) {
    for (uint8_t tag = 1; tag <= 2; ++tag) (void)guard.judge(test_peer(tag), tag == 1 ? 100 : 1, 0.1);
  }
  EXPECT_EQ(refused_of_ten(guard, test_peer(1), 100), 0) << "one of two";
}

// Who was refused for being far is not, once that is usual.
TEST(ClipGuard, RefusesOnlyWhoIsFar) {
  ClipGuard guard(3);
  meet_all(guard, 1, 0.1, 4);
  EXPECT_GT(refused_of_ten(guard, test_peer(1), 100), 4);
  meet_all(guard, 100, 0.1, 10);
  EXPECT_EQ(refused_of_ten(guard, test_peer(1), 100), 0);
}

// A last one whose exchanges come late would be far from models that agree.
TEST(ClipGuard, WhatComesNearWhileSettlingIsNotUsual) {
  ClipGuard guard(3);
  meet_all(guard, 1, 0.1, 4);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(guard.judge(test_peer(1 + i % 5), 1e-6, 0.1, false), 1);
  EXPECT_EQ(guard.scale(3, 0.1), 1);
}

TEST(ClipGuard, WithoutStepsOfItsOwnAnAgentKnowsNothing) {
  ClipGuard guard(3);
  meet_all(guard, 1e-6, 0, 4);
  EXPECT_EQ(guard.judge(test_peer(1), 5, 0), 1);
}

// Whether a peer is refused in this meeting, which moves both if not.
bool refused(StagnationCheck& known, double distance) {
  if (known.refuses(test_peer(1))) return true;
  known.drawn(test_peer(1), distance, 0.01);
  return false;
}

TEST(StagnationCheck, WhoStaysFarIsRefusedForLongerAndLonger) {
  StagnationCheck known(4);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(refused(known, 100)) << i;
  for (const int refusals : {16, 32, 64}) {
    EXPECT_FALSE(refused(known, 100)) << "then one meeting tells";
    for (int i = 0; i < refusals; ++i) EXPECT_TRUE(refused(known, 100)) << i;
  }
  EXPECT_FALSE(refused(known, 50)) << "it has come nearer";
  EXPECT_FALSE(refused(known, 50));
  EXPECT_FALSE(known.refuses(test_peer(2)));
}

TEST(StagnationCheck, WhoComesNearerIsNot) {
  StagnationCheck known(4);
  double distance = 100;
  for (int i = 0; i < 100; ++i, distance *= 0.98) EXPECT_FALSE(refused(known, distance)) << i;
}

TEST(StagnationCheck, WhoIsFarNowAndThenIsRefusedToo) {
  StagnationCheck known(4);
  int refusals = 0;
  for (int i = 0; i < 40; ++i) {
    known.near(test_peer(1));
    refusals += refused(known, 100);
  }
  EXPECT_GT(refusals, 10);
  for (int i = 0; i < 100; ++i) {  // so rarely that it may be chance
    EXPECT_FALSE(refused(known, 100) && i > 20) << i;
    for (int k = 0; k < 4; ++k) known.near(test_peer(1));
  }
}

TEST(StagnationCheck, WhoWasRefusedOftenIsForgivenLater) {
  const auto refused_after = [](int refusals, int near) {
    StagnationCheck known(4);
    int count = 0;
    while (count < refusals) count += refused(known, 100);
    while (known.refuses(test_peer(1))) {
    }
    for (int i = 0; i < near; ++i) known.near(test_peer(1));
    EXPECT_FALSE(refused(known, 100));
    return refused(known, 100);  // unless forgiven, one meeting told
  };
  EXPECT_TRUE(refused_after(1, 7));
  EXPECT_FALSE(refused_after(1, 8));
  EXPECT_TRUE(refused_after(16 + 1, 15));
  EXPECT_FALSE(refused_after(16 + 1, 16));
}

// Its momentum, which pulls it away, differs by more than the codec can tell, until it has come nearer.
TEST(StagnationCheck, WhoseMomentumIsNotMixedIsGivenTime) {
  StagnationCheck known(4);
  for (int i = 0; i < 64 + 5; ++i) {
    EXPECT_FALSE(known.refuses(test_peer(1))) << i;
    known.drawn(test_peer(1), 100, 0.01, false);
  }
  EXPECT_TRUE(known.refuses(test_peer(1))) << "but not for ever";
}

TEST(SettlingGuard, EachExchangeShrinksWhatAPartnerMayBeAway) {
  SettlingGuard guard(1);
  const Far far = {.first = 8, .last = 1};
  EXPECT_FALSE(guard.is_far(test_peer(1), 8, far));
  EXPECT_TRUE(guard.is_far(test_peer(1), 8.1, far));
  for (int i = 0; i < 2; ++i) guard.drawn(test_peer(1), 0.5);
  EXPECT_FALSE(guard.is_far(test_peer(1), 2, far));
  EXPECT_TRUE(guard.is_far(test_peer(1), 2.1, far));
  EXPECT_FALSE(guard.is_far(test_peer(2), 8, far)) << "another one";
  for (int i = 0; i < 20; ++i) guard.drawn(test_peer(1), 0.5);
  EXPECT_FALSE(guard.is_far(test_peer(1), 1, far)) << "models that are so near agree";
  EXPECT_TRUE(guard.is_far(test_peer(1), 1.1, far));
  guard.forget(test_peer(1));
  EXPECT_FALSE(guard.is_far(test_peer(1), 8, far)) << "another process";
  guard.drawn(test_peer(1), 0.5);
  guard.begin_anew();
  EXPECT_FALSE(guard.is_far(test_peer(1), 8, far)) << "it trained in between";
}

TEST(SettlingGuard, WhoMetOneThatComesLateMayBeAsFarAwayAsThatOne) {
  SettlingGuard guard(1);
  Far far = {.first = 8, .last = 1};
  const auto others = [&far](double near, double late) {
    far.others =
        std::make_shared<const std::vector<Apart>>(std::vector<Apart>{{test_peer(1), near}, {test_peer(2), late}});
  };
  for (int i = 0; i < 20; ++i) guard.drawn(test_peer(1), 0.5);
  others(0.1, 6);
  EXPECT_FALSE(guard.is_far(test_peer(1), 6, far));
  EXPECT_TRUE(guard.is_far(test_peer(1), 6.1, far));
  others(0.1, INFINITY);
  EXPECT_FALSE(guard.is_far(test_peer(1), 8, far)) << "nobody knows where the late one is";
  EXPECT_TRUE(guard.is_far(test_peer(1), 8.1, far)) << "no more than at first";
  others(100, 0.1);
  EXPECT_TRUE(guard.is_far(test_peer(1), 1.1, far)) << "it does not speak for itself";
  others(0.1, 6);
  guard.drawn(test_peer(2), 0.5);
  EXPECT_FALSE(guard.is_far(test_peer(1), 4, far));
  EXPECT_TRUE(guard.is_far(test_peer(1), 4.1, far)) << "the late one was drawn nearer once";
}

TEST(SettlingGuard, AMemberThatIsNeverMetLetsNobodyInForEver) {
  SettlingGuard guard(1);
  Far far = {.first = 8, .last = 1};
  far.others = std::make_shared<const std::vector<Apart>>(std::vector<Apart>{{test_peer(2), INFINITY}});
  int let_in = 0;
  for (; let_in < 100 && !guard.is_far(test_peer(1), 7, far); ++let_in) {
    guard.drawn(test_peer(1), 0.5, guard.is_beyond_own(test_peer(1), 7, far));
  }
  EXPECT_EQ(let_in, 17) << "once by itself, then for eight distances";
  EXPECT_FALSE(guard.is_far(test_peer(3), 7, far)) << "another one";
}

// All of a distance may lie in one of them.
TEST(SettlingGuard, AFragmentMayBeFartherThanTheWholeModel) {
  SettlingGuard guard(4);
  EXPECT_FALSE(guard.is_far(test_peer(1), 16, {.first = 8, .last = 1}));
  EXPECT_TRUE(guard.is_far(test_peer(1), 16.1, {.first = 8, .last = 1}));
}

TEST(PairCoefficients, MassesDivideTheDifferenceAndTheSumStays) {
  struct Case { double offer, proposer_mass, acceptor_mass, proposer, acceptor; };
  const Case cases[] = {
      {1, 1, 1, 0.5, 0.5},
      {0.25, 1, 1, 0.125, 0.125},
      {1, 1, 3, 0.75, 0.25},
      {1, 3, 1, 0.25, 0.75},
      {1, 1, 8, 8.0 / 9, 1.0 / 9},
      {1, 1, 8e6, 8.0 / 9, 1e-6 / 9},
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

TEST(QuantStepBackoff, OfAPeerAreFollowedOnceAndThenMoreAndMoreRarely) {
  QuantStepBackoff steps;
  const PeerId coarse = test_peer(1), other = test_peer(2);
  std::vector<int> followed;
  for (int exchange = 0; exchange < 500; ++exchange) {
    if (steps.follow(coarse, false)) followed.push_back(exchange);
  }
  EXPECT_EQ(followed, (std::vector<int>{0, 32, 96, 224, 480}));

  EXPECT_TRUE(steps.follow(other, false)) << "each peer is judged alone";
  EXPECT_FALSE(steps.follow(coarse, false));
  EXPECT_TRUE(steps.follow(coarse, true));
  EXPECT_TRUE(steps.follow(coarse, false)) << "the steps could be compared since";
  EXPECT_FALSE(steps.follow(coarse, false));
  steps.forget(coarse);
  EXPECT_TRUE(steps.follow(coarse, false)) << "another process";
}

// In between others have made the own steps fine again.
TEST(QuantStepBackoff, OfAPeerThatIsMetRarelyAreFollowedAgain) {
  QuantStepBackoff steps;
  EXPECT_TRUE(steps.follow(test_peer(1), false));
  for (int i = 0; i < 39; ++i) EXPECT_TRUE(steps.follow(test_peer(2), true));
  EXPECT_TRUE(steps.follow(test_peer(1), false));
}

}  // namespace
}  // namespace starling
