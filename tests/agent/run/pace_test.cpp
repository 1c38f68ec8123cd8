// Pace: the rate, the mass that follows from it, overlap, and how long a round lasts.
#include "agent/run/pace.h"

#include <gtest/gtest.h>

#include <chrono>

namespace starling {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{};

SwarmConfig settings(const std::string& weight = "uniform", Overlap overlap = Overlap::kAuto) {
  SwarmConfig swarm;
  swarm.exchange.kind = ExchangeKind::kGroup;
  swarm.exchange.source = SourceKind::kUpdates;
  swarm.weight = weight;
  swarm.exchange.overlap = overlap;
  return swarm;
}

StepReport steps(uint64_t count, Duration compute_time = {}) {
  StepReport report;
  report.steps = count;
  report.compute_time = compute_time;
  return report;
}

TEST(Pace, MeasuresTheRateOverAWindowAndSmoothsIt) {
  Pace pace(settings(), 1000);
  pace.start(kStart);
  pace.stepped(steps(30), kStart + seconds(1));
  EXPECT_FALSE(pace.measure_rate(kStart + seconds(1)));
  EXPECT_EQ(pace.steps_per_s(), 0);
  pace.stepped(steps(10), kStart + seconds(2));
  EXPECT_TRUE(pace.measure_rate(kStart + seconds(2)));
  EXPECT_DOUBLE_EQ(pace.steps_per_s(), 20);
  pace.stepped(steps(120), kStart + seconds(4));
  EXPECT_TRUE(pace.measure_rate(kStart + seconds(4)));
  EXPECT_DOUBLE_EQ(pace.steps_per_s(), 40) << "the mean of 20 and 60";
}

// 4 steps of 100 ms in two rounds; the trainer then stands still for 30 and 50 ms, 20 of which are an evaluation.
TEST(Pace, SaysWhatAStepConsistsOf) {
  Pace pace(settings(), 1000);
  pace.start(kStart);
  EXPECT_FALSE(pace.times().mean().exposed_ms) << "not measured yet";
  StepReport report = steps(2, milliseconds(200));
  report.forward_time = milliseconds(60);
  report.backward_time = milliseconds(130);
  pace.stepped(report, kStart + milliseconds(200));
  pace.times().coded(milliseconds(4), milliseconds(6));
  (void)pace.round_begins(kStart + milliseconds(230), {});
  pace.stepped(report, kStart + milliseconds(430));
  pace.job_took(milliseconds(20));
  (void)pace.round_begins(kStart + milliseconds(480), {});
  EXPECT_FALSE(pace.times().mean().exposed_ms) << "the window is not over";
  ASSERT_TRUE(pace.measure_rate(kStart + seconds(2)));
  const StepBreakdown mean = pace.times().mean();
  EXPECT_DOUBLE_EQ(mean.forward_ms.value(), 30);
  EXPECT_DOUBLE_EQ(mean.backward_ms.value(), 65);
  EXPECT_DOUBLE_EQ(mean.other_ms.value(), 5);
  EXPECT_DOUBLE_EQ(mean.select_ms.value(), 1);
  EXPECT_DOUBLE_EQ(mean.encode_ms.value(), 1.5);
  EXPECT_DOUBLE_EQ(mean.exposed_ms.value(), 15);
  EXPECT_DOUBLE_EQ(mean.jobs_ms.value(), 5);
  ASSERT_TRUE(pace.measure_rate(kStart + seconds(4)));
  EXPECT_DOUBLE_EQ(pace.times().mean().exposed_ms.value(), 15) << "no steps: what was known stays";
  pace.stepped(steps(1, milliseconds(9)), kStart + seconds(6));
  ASSERT_TRUE(pace.measure_rate(kStart + seconds(6)));
  EXPECT_FALSE(pace.times().mean().backward_ms) << "this trainer does not say";
  EXPECT_FALSE(pace.times().mean().select_ms);
  EXPECT_FALSE(pace.times().mean().encode_ms);
}

TEST(Pace, AnAgentTwiceAsFastWeighsHalfAndNeverMoreThanItsLimit) {
  Pace pace(settings(), 1000);
  pace.start(kStart);
  EXPECT_EQ(pace.mass(), 1);
  pace.stepped(steps(400), kStart + seconds(2));
  ASSERT_TRUE(pace.measure_rate(kStart + seconds(2)));
  pace.weigh(100);
  EXPECT_DOUBLE_EQ(pace.mass(), 0.5);
  pace.limit_mass(8);
  EXPECT_DOUBLE_EQ(pace.mass(), 0.5);
  pace.limit_mass(0.25);
  EXPECT_DOUBLE_EQ(pace.mass(), 0.25);
}

TEST(Pace, WeighsByItsDataFromTheStart) {
  Pace pace(settings("data"), 1024);
  pace.start(kStart);
  EXPECT_DOUBLE_EQ(pace.mass(), 1024);
}

TEST(Pace, WhoComesLateTakesWhatIsLeftOfTheSteps) {
  Pace pace(settings(), 1000);
  pace.start(kStart);
  EXPECT_EQ(pace.steps_left(50, milliseconds(30)), 50u) << "how long a step takes is not known";
  pace.stepped(steps(50, milliseconds(1000)), kStart + milliseconds(1000));
  EXPECT_EQ(pace.steps_left(50, {}), 50u);
  EXPECT_EQ(pace.steps_left(50, milliseconds(3)), 49u) << "rather early than late";
  EXPECT_EQ(pace.steps_left(50, milliseconds(205)), 39u);
  EXPECT_EQ(pace.steps_left(50, milliseconds(979)), 1u);
  EXPECT_EQ(pace.steps_left(50, milliseconds(980)), 50u) << "nothing is left: it is as good as in time for the next";
  EXPECT_EQ(pace.steps_left(50, seconds(100)), 50u);
  EXPECT_EQ(pace.steps_left(1, milliseconds(5)), 1u);

  SwarmConfig timed = settings();
  timed.round = milliseconds(100);
  Pace rounds(timed, 1000);
  rounds.start(kStart);
  (void)rounds.round_begins(kStart + milliseconds(500), milliseconds(70));
  EXPECT_TRUE(rounds.round_goes_on(kStart + milliseconds(529)));
  EXPECT_FALSE(rounds.round_goes_on(kStart + milliseconds(530)));
  (void)rounds.round_begins(kStart + milliseconds(600), milliseconds(170));
  EXPECT_TRUE(rounds.round_goes_on(kStart + milliseconds(699))) << "longer than a round";
}

// A round of `compute` and `boundary`, `count` times.
std::optional<double> rounds(Pace& pace, int count, Duration compute, Duration boundary) {
  TimePoint now = kStart;
  std::optional<double> waited;
  for (int i = 0; i < count && !waited; ++i) {
    now += compute;
    pace.stepped(steps(1, compute), now);
    now += boundary;
    waited = pace.round_begins(now, {});
  }
  return waited;
}

TEST(Pace, OverlapsOnceBoundariesTakeMoreThanATenthOfARound) {
  Pace shortly(settings(), 1000);
  shortly.start(kStart);
  EXPECT_FALSE(rounds(shortly, 100, milliseconds(95), milliseconds(5)));
  EXPECT_FALSE(shortly.overlap());

  Pace longer(settings(), 1000);
  longer.start(kStart);
  EXPECT_FALSE(rounds(longer, 31, milliseconds(80), milliseconds(20))) << "too few to judge";
  const auto waited = rounds(longer, 1, milliseconds(80), milliseconds(20));
  ASSERT_TRUE(waited);
  EXPECT_NEAR(*waited, 0.2, 1e-9);
  EXPECT_TRUE(longer.overlap());
  EXPECT_FALSE(rounds(longer, 100, milliseconds(80), milliseconds(20))) << "said once";
}

TEST(Pace, WhatIsNoCostOfTheExchangeDoesNotCount) {
  Pace pace(settings(), 1000);
  pace.start(kStart);
  TimePoint now = kStart;
  for (int i = 0; i < 64; ++i) {
    now += milliseconds(90);
    pace.stepped(steps(1, milliseconds(90)), now);
    now += milliseconds(505);  // the exchange, and an evaluation
    pace.job_took(milliseconds(500));
    EXPECT_FALSE(pace.round_begins(now, {}));
  }
  EXPECT_FALSE(pace.overlap());
  EXPECT_FALSE(rounds(pace, 32, milliseconds(90), milliseconds(5)));
  EXPECT_TRUE(rounds(pace, 64, milliseconds(90), milliseconds(20))) << "the exchange counts";
}

// Averages of old models do not learn where agents hold different data.
TEST(Pace, AveragesOfModelsOverlapOnlyWhereTheSettingsSaySo) {
  for (const Overlap overlap : {Overlap::kAuto, Overlap::kOff, Overlap::kOn}) {
    for (const ExchangeKind kind : {ExchangeKind::kPairwise, ExchangeKind::kGroup, ExchangeKind::kNeighborhood}) {
      SwarmConfig swarm = settings("uniform", overlap);
      swarm.exchange.kind = kind;
      swarm.exchange.source = SourceKind::kParams;
      Pace pace(swarm, 1000);
      pace.start(kStart);
      EXPECT_FALSE(rounds(pace, 100, milliseconds(20), milliseconds(80)));
      EXPECT_EQ(pace.overlap(), overlap == Overlap::kOn);
    }
  }
}

TEST(Pace, ExpectsOfTheNextStepsWhatTheLastOnesTook) {
  Pace pace(settings(), 1000);
  pace.start(kStart);
  EXPECT_EQ(pace.expected(8), Duration::zero());
  pace.stepped(steps(4), kStart + milliseconds(200));
  EXPECT_EQ(pace.expected(8), milliseconds(400));

  SwarmConfig swarm = settings();
  swarm.round = seconds(10);
  EXPECT_EQ(Pace(swarm, 1000).expected(8), seconds(10));
}

TEST(Pace, OverlapIsAsTheSettingsSayWhereTheySaySo) {
  Pace on(settings("uniform", Overlap::kOn), 1000), off(settings("uniform", Overlap::kOff), 1000);
  EXPECT_TRUE(on.overlap());
  off.start(kStart);
  EXPECT_FALSE(rounds(off, 100, milliseconds(1), milliseconds(99)));
  EXPECT_FALSE(off.overlap());
}

TEST(Pace, ARoundInTimeGoesOnUntilItIsOver) {
  SwarmConfig swarm = settings();
  Pace in_steps(swarm, 1000);
  in_steps.start(kStart);
  EXPECT_FALSE(in_steps.round_goes_on(kStart));
  swarm.round = seconds(10);
  Pace in_time(swarm, 1000);
  in_time.start(kStart);
  EXPECT_TRUE(in_time.round_goes_on(kStart + seconds(10) - milliseconds(1)));
  EXPECT_FALSE(in_time.round_goes_on(kStart + seconds(10)));
  in_time.round_begins(kStart + seconds(12), {});
  EXPECT_TRUE(in_time.round_goes_on(kStart + seconds(21)));
}

TEST(Pace, AnAgentAloneTakesFiftyMillisecondsOfStepsAndNoMoreThanAreLeft) {
  Pace pace(settings(), 1000);
  pace.start(kStart);
  EXPECT_EQ(pace.steps_alone(1000), 1u) << "the rate is not known yet";
  pace.stepped(steps(800), kStart + seconds(2));
  ASSERT_TRUE(pace.measure_rate(kStart + seconds(2)));
  EXPECT_EQ(pace.steps_alone(1000), 20u) << "50 ms at 400 a second";
  EXPECT_EQ(pace.steps_alone(7), 7u);
  pace.stepped(steps(80000), kStart + seconds(4));
  ASSERT_TRUE(pace.measure_rate(kStart + seconds(4)));
  EXPECT_EQ(pace.steps_alone(1000), 64u);
}

}  // namespace
}  // namespace starling
