// The swarm as the living members tell of it, and the learning rate's schedule on its clock.
#include "agent/run/swarm_clock.h"

#include <gtest/gtest.h>

#include "agent/run/pace.h"
#include "agent/train/schedule.h"
#include "gossip/limits.h"
#include "tests/gossip/membership/membership_support.h"

namespace starling {
namespace {

class SwarmClockTest : public testing::Test {
 protected:
  void set_meta(uint32_t other, const MemberMeta& meta, bool proven = true) {
    PeerRecord record = record_of(other, 1, ++incarnation_);
    record.meta = meta;
    membership_.add(record);
    if (proven) membership_.prove(peer_of(other), 1);
  }
  // This agent and `honest` others take ten steps a second; the ids from 10 on tell `lie`.
  uint64_t train(double duration_s, uint32_t honest, uint32_t liars, const MemberMeta& lie, bool proven = true) {
    uint64_t swarm = 0;
    for (int tick = 0; tick < 10 * duration_s; ++tick) {
      clock_.advance(std::chrono::milliseconds(100));
      ++steps_;
      for (uint32_t other = 1; other <= honest; ++other) {
        set_meta(other, {.phase = Phase::kTraining, .steps = steps_, .steps_per_s = 10});
      }
      for (uint32_t i = 0; i < liars; ++i) set_meta(10 + i, lie, proven);
      swarm = swarm_clock_.steps(steps_, 10);
    }
    return swarm;
  }
  static MemberMeta lie() { return {.phase = Phase::kTraining, .steps = 1'000'000'000'000, .steps_per_s = 1e30f}; }

  FakeClock clock_;
  RecordingOutbox outbox_;
  Membership membership_{MembershipOptions{}, record_of(0), clock_, outbox_, 1, 1};
  SwarmClock swarm_clock_{membership_, clock_};
  uint32_t incarnation_ = 0;
  uint64_t steps_ = 0;
};

TEST_F(SwarmClockTest, TheSwarmsClockIsTheMedianAndNeverRunsBackwards) {
  for (uint32_t other = 1; other < 4; ++other) set_meta(other, {.phase = Phase::kTraining, .steps = 100u * other});
  EXPECT_EQ(swarm_clock_.steps(5, 0, true), 5u) << "what members claim first counts at most as this agent's clock";
  EXPECT_EQ(swarm_clock_.steps(150, 0, true), 150u);  // of 100 150 200 300, the lower middle one
  set_meta(1, {.phase = Phase::kTraining, .steps = 1000});
  EXPECT_EQ(swarm_clock_.steps(250, 0, true), 250u);  // of 200 250 300 500
  set_meta(1, {.phase = Phase::kFinished, .steps = 1000});
  set_meta(3, {.phase = Phase::kFinished, .steps = 300});
  EXPECT_EQ(swarm_clock_.steps(250, 0, true), 250u) << "of 200 250";
}

TEST_F(SwarmClockTest, OfTwoTheSlowerDecides) {
  set_meta(1, {.phase = Phase::kTraining, .steps = 0});
  EXPECT_EQ(swarm_clock_.steps(0, 10), 0u);
  set_meta(1, {.phase = Phase::kTraining, .steps = 10});
  EXPECT_EQ(swarm_clock_.steps(100, 10), 10u);
  EXPECT_EQ(swarm_clock_.steps(110, 10), 11u) << "at a tenth of this agent's pace";
  for (uint64_t own = 120; own <= 1000; own += 10) (void)swarm_clock_.steps(own, 10);
  EXPECT_EQ(swarm_clock_.steps(1010, 10), 25u) << "its next record is overdue";
}

// Others tell of every tenth step.
TEST_F(SwarmClockTest, StepsSinceTheLastRecordsCount) {
  const auto others_tell = [&](Phase phase) {
    for (uint32_t other = 1; other <= 3; ++other) set_meta(other, {.phase = phase, .steps = steps_});
  };
  for (; steps_ < 35; ++steps_) {
    if (steps_ % 10 == 0) others_tell(Phase::kTraining);
    const uint64_t found = swarm_clock_.steps(steps_, 0);
    EXPECT_EQ(found, steps_ < 10 ? 0 : steps_) << "they may stand still until they tell of some";
  }
  for (; steps_ < 100; ++steps_) (void)swarm_clock_.steps(steps_, 0);
  EXPECT_EQ(swarm_clock_.steps(100, 0), 45u) << "they stand still since step 30, or are gone";
}

// By its own reckoning the run came to its end; it may have told of fewer steps.
TEST_F(SwarmClockTest, OneThatSettlesHoldsNobodyBack) {
  for (; steps_ < 35; ++steps_) {
    if (steps_ % 10 == 0) set_meta(1, {.phase = Phase::kTraining, .steps = steps_});
    (void)swarm_clock_.steps(steps_, 0);
  }
  set_meta(1, {.phase = Phase::kSettling, .steps = 33});
  for (; steps_ < 60; ++steps_) EXPECT_EQ(swarm_clock_.steps(steps_, 0), steps_);
}

TEST_F(SwarmClockTest, InStepOnlyWhatOthersToldCounts) {
  set_meta(1, {.phase = Phase::kTraining, .steps = 10});
  EXPECT_EQ(swarm_clock_.steps(10, 0, true), 10u);
  EXPECT_EQ(swarm_clock_.steps(15, 0, true), 10u);
}

TEST_F(SwarmClockTest, FreshIdsThatLieMoveTheClockByAtMostFourTimesTheirStay) {
  EXPECT_EQ(train(60, 3, 0, {}), 600u);
  const uint64_t lied_to = train(10, 3, 5, lie());
  EXPECT_LE(lied_to, 600u + 10 * 40) << "ten seconds of five liars are at most forty of training";
  EXPECT_LE(train(50, 3, 5, {.phase = Phase::kFinished}), 1200u) << "then it waits for the honest ones";
}

TEST_F(SwarmClockTest, OneForgedFrameAboutEveryOtherMovesNothing) {
  train(60, 3, 0, {});
  for (uint32_t other = 1; other <= 3; ++other) set_meta(other, lie());
  EXPECT_LE(swarm_clock_.steps(++steps_, 10), 605u);
  EXPECT_EQ(train(10, 3, 0, {}), 701u);
}

// What members tell for the first time counts at once, as far as this agent itself has come since it met them.
TEST_F(SwarmClockTest, AForgedFrameMovesAYoungClockNoFurtherThanTheOwnSteps) {
  for (uint32_t other = 1; other <= 3; ++other) set_meta(other, {.phase = Phase::kTraining});
  for (; steps_ < 200; ++steps_) EXPECT_EQ(swarm_clock_.steps(steps_, 10), 0u);
  for (uint32_t other = 1; other <= 3; ++other) set_meta(other, lie());
  EXPECT_EQ(swarm_clock_.steps(200, 10), 200u);
  for (uint32_t other = 1; other <= 3; ++other) set_meta(other, {.phase = Phase::kTraining, .steps = 200});
  EXPECT_LE(swarm_clock_.steps(201, 10), 205u);
}

TEST_F(SwarmClockTest, OneLiarMovesNothing) { EXPECT_EQ(train(30, 3, 1, lie()), 300u); }

TEST_F(SwarmClockTest, WhoNeverAnsweredMovesNothing) { EXPECT_EQ(train(30, 3, 9, lie(), false), 300u); }

// Eight times slower than all others, it still ends with them.
TEST_F(SwarmClockTest, ASlowAgentFollowsTheMembersThatItKnows) {
  uint64_t swarm = 0;
  for (uint64_t second = 0; second <= 120; ++second) {
    for (uint32_t other = 1; other <= 3; ++other) {
      set_meta(other, {.phase = Phase::kTraining, .steps = 80 * second, .steps_per_s = 80});
    }
    swarm = swarm_clock_.steps(10 * second, 10);
    clock_.advance(std::chrono::seconds(1));
  }
  EXPECT_EQ(swarm, 80u * 120);
}

TEST_F(SwarmClockTest, CountsWhoTakesPart) {
  EXPECT_EQ(swarm_clock_.tally().taking_part, 0u);
  set_meta(1, {.phase = Phase::kTraining});
  set_meta(2, {.phase = Phase::kSettling});
  set_meta(3, {.phase = Phase::kFinished});
  set_meta(4, {.phase = Phase::kSick});
  EXPECT_EQ(swarm_clock_.tally().taking_part, 2u);
  EXPECT_EQ(swarm_clock_.tally().training, 1u);
}

TEST_F(SwarmClockTest, MediansAreOverThoseThatTakePartAndThisAgent) {
  set_meta(1, {.phase = Phase::kTraining, .mass = 2, .steps_per_s = 10});
  set_meta(2, {.phase = Phase::kTraining, .mass = 3});
  set_meta(3, {.phase = Phase::kFinished, .mass = 100, .steps_per_s = 1000});
  EXPECT_EQ(swarm_clock_.median_mass(1), 2);
  EXPECT_EQ(swarm_clock_.median_rate(0), 10) << "who does not know its rate says nothing";
  EXPECT_EQ(swarm_clock_.median_rate(4), 4) << "of two, the lower";
}

// Else an agent that met them a second before the others weighed many times less than these, which drew all to them.
TEST_F(SwarmClockTest, AnyNumberOfNewcomersMovesNoMedianUntilTheyAreKnown) {
  const MemberMeta slow{.phase = Phase::kTraining, .mass = 64, .steps_per_s = 1};
  train(20, 3, 0, slow);
  train(5, 3, 50, slow);
  EXPECT_EQ(swarm_clock_.median_rate(10), 10);
  EXPECT_EQ(swarm_clock_.median_mass(1), 1);
  train(60, 3, 50, slow);
  EXPECT_EQ(swarm_clock_.median_rate(10), 1) << "most are slow by now";
  EXPECT_EQ(swarm_clock_.median_mass(1), 64);
}

// One record may claim any finite rate and any mass of the wire.
TEST_F(SwarmClockTest, NoClaimMakesAMassThatIsNone) {
  for (const float rate : {1e30f, 1e-30f}) {
    for (const double mass : {1e-18, 1e18}) {
      set_meta(1, {.phase = Phase::kTraining, .mass = mass, .steps_per_s = rate});
      const double relative = 10 / swarm_clock_.median_rate(10);
      EXPECT_GE(relative, 1 / kRateRatioMax);
      EXPECT_LE(relative, kRateRatioMax);
      EXPECT_GE(swarm_clock_.median_mass(1), 1 / kRateRatioMax);
      EXPECT_LE(swarm_clock_.median_mass(1), 1);
      EXPECT_LE(choose_mass("uniform", 10 / static_cast<double>(rate), 1, 0), kRateRatioMax);
    }
  }
}

TEST(Schedule, FollowsTheSwarmsClock) {
  OptimizerConfig optimizer;
  EXPECT_EQ(schedule_factor(optimizer, 12345, 0), 1);
  optimizer.warmup = 9;
  EXPECT_DOUBLE_EQ(schedule_factor(optimizer, 0, 0), 0.1);
  EXPECT_DOUBLE_EQ(schedule_factor(optimizer, 8, 0), 0.9);
  EXPECT_DOUBLE_EQ(schedule_factor(optimizer, 9, 0), 1);
  optimizer.schedule = Schedule::kCosine;
  EXPECT_DOUBLE_EQ(schedule_factor(optimizer, 9, 109), 1);
  EXPECT_DOUBLE_EQ(schedule_factor(optimizer, 59, 109), 0.5);
  EXPECT_NEAR(schedule_factor(optimizer, 109, 109), 0, 1e-15);
  EXPECT_NEAR(schedule_factor(optimizer, 500, 109), 0, 1e-15) << "who goes on does not rise again";
  optimizer.schedule = Schedule::kStep;
  optimizer.decay_every = 100;
  optimizer.decay = 0.5;
  EXPECT_DOUBLE_EQ(schedule_factor(optimizer, 99, 0), 1);
  EXPECT_DOUBLE_EQ(schedule_factor(optimizer, 350, 0), 0.125);
}

TEST_F(SwarmClockTest, WhoNeverAnsweredIsNotAmongThoseThatAnswer) {
  set_meta(1, {.phase = Phase::kSettling}, false);
  set_meta(2, {.phase = Phase::kTraining}, false);
  EXPECT_EQ(swarm_clock_.tally().ended, 0u);
  EXPECT_EQ(swarm_clock_.tally().to_train, 0u);
  const SwarmClock::Tally all = swarm_clock_.tally(everybody);
  EXPECT_EQ(all.ended, 1u);
  EXPECT_EQ(all.to_train, 1u);
}

TEST_F(SwarmClockTest, WhoIsSickWillTrainAgain) {
  set_meta(1, {.phase = Phase::kSick});
  set_meta(2, {.phase = Phase::kSettling});
  set_meta(3, {.phase = Phase::kFinished});
  set_meta(4, {.phase = Phase::kTraining});
  set_meta(5, {.phase = Phase::kJoining});
  EXPECT_EQ(swarm_clock_.tally().to_train, 2u);
  EXPECT_EQ(swarm_clock_.tally().ended, 2u);
}

}  // namespace
}  // namespace starling
