// The swarm as the living members tell of it, and the learning rate's schedule on its clock.
#include "agent/run/swarm_clock.h"

#include <gtest/gtest.h>

#include "agent/train/schedule.h"
#include "tests/gossip/membership/membership_support.h"

namespace starling {
namespace {

class SwarmClockTest : public testing::Test {
 protected:
  void set_meta(uint32_t other, const MemberMeta& meta) {
    PeerRecord record = record_of(other, 1, ++incarnation_);
    record.meta = meta;
    membership_.add(record);
  }

  FakeClock clock_;
  RecordingOutbox outbox_;
  Membership membership_{MembershipOptions{}, record_of(0), clock_, outbox_, 1};
  SwarmClock swarm_clock_{membership_};
  uint32_t incarnation_ = 0;
};

TEST_F(SwarmClockTest, TheSwarmsClockIsTheMedianAndNeverRunsBackwards) {
  for (uint32_t other = 1; other < 4; ++other) set_meta(other, {.phase = Phase::kTraining, .steps = 100u * other});
  EXPECT_EQ(swarm_clock_.steps(5), 200u);   // of 5 100 200 300
  set_meta(2, {.phase = Phase::kFinished, .steps = 200});
  set_meta(3, {.phase = Phase::kFinished, .steps = 300});
  EXPECT_EQ(swarm_clock_.steps(5), 200u);
}

TEST_F(SwarmClockTest, CountsWhoTakesPart) {
  EXPECT_EQ(swarm_clock_.taking_part_count(), 0u);
  set_meta(1, {.phase = Phase::kTraining});
  set_meta(2, {.phase = Phase::kSettling});
  set_meta(3, {.phase = Phase::kFinished});
  set_meta(4, {.phase = Phase::kSick});
  EXPECT_EQ(swarm_clock_.taking_part_count(), 2u);
  EXPECT_EQ(swarm_clock_.training_count(), 1u);
}

TEST_F(SwarmClockTest, MediansAreOverThoseThatTakePartAndThisAgent) {
  set_meta(1, {.phase = Phase::kTraining, .mass = 2, .steps_per_s = 10});
  set_meta(2, {.phase = Phase::kTraining, .mass = 3});
  set_meta(3, {.phase = Phase::kFinished, .mass = 100, .steps_per_s = 1000});
  EXPECT_EQ(swarm_clock_.median_mass(1), 2);
  EXPECT_EQ(swarm_clock_.median_rate(0), 10) << "who does not know its rate says nothing";
  EXPECT_EQ(swarm_clock_.median_rate(4), 10) << "of two, the higher";
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

}  // namespace
}  // namespace starling
