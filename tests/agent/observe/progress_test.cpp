// The line of progress, without a terminal: what it says, and when. e2e/status looks at it in one.
#include "agent/observe/progress.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/fake_clock.h"
#include "tests/support/log_text.h"

namespace starling {
namespace {

using std::chrono::seconds;

class ProgressTest : public testing::Test {
 protected:
  ProgressTest() {
    unsetenv("TERM");
    line_ = std::make_unique<TerminalLine>();
    log_ = std::make_unique<ProgressLog>(clock_, *line_);
    status_.phase = "training";
    status_.stop_after = 2000;
    status_.peers = 3;
  }
  ~ProgressTest() override { line_.reset(); }

  std::string take() { return text_.take(); }
  // A second passes with so many steps.
  void step(uint64_t count) {
    clock_.advance(seconds(1));
    status_.steps += count;
    status_.steps_taken += count;
    status_.swarm_steps += count;
    log_->on(status_);
  }

  LogText text_;
  FakeClock clock_;
  AgentStatus status_;
  std::unique_ptr<TerminalLine> line_;
  std::unique_ptr<ProgressLog> log_;
};

TEST_F(ProgressTest, SaysAllThatWasMeasuredEveryThirtySecondsAndAtTheEnd) {
  log_->on(status_);
  EXPECT_EQ(take(), "step 0/2000 · 0 % · 3 peers\n") << "nothing is measured yet";
  status_.steps_per_s = 42.3;
  status_.loss = 0.1123;
  for (int i = 1; i < 30; ++i) step(42);
  EXPECT_EQ(take(), "");
  log_->on(Evaluated{1260, 0.975, 0.1});
  status_.accuracy = 0.975;
  step(42);
  EXPECT_EQ(take(), "step 1260/2000 · 63 % · 42 steps/s · ETA 17 s · loss 0.11 · acc 97.5 % · 3 peers\n");
  Finished end;
  static_cast<AgentStatus&>(end) = status_;
  end.phase = "finished";
  end.steps = end.swarm_steps = 2000;
  end.peers = 1;
  log_->on(end);
  EXPECT_EQ(take(), "step 2000/2000 · 100 % · 42 steps/s · loss 0.11 · acc 97.5 % · 1 peer\n");
}

TEST_F(ProgressTest, TheFirstStepIsSaidAtOnceAndHowLongItTakes) {
  status_.first_steps = true;
  log_->on(status_);
  EXPECT_EQ(take(), "step 0/2000 · first step · 3 peers\n");
  for (int i = 0; i < 30; ++i) step(0);
  EXPECT_EQ(take(), "step 0/2000 · first step · for 30 s · 3 peers\n");
  status_.first_steps = false;
  status_.loss = 2.31;
  for (int i = 0; i < 30; ++i) step(1);
  EXPECT_EQ(take(), "step 30/2000 · 1 % · ETA 32 min · loss 2.3 · 3 peers\n");
}

TEST_F(ProgressTest, ThePercentIsOfTheStepsBesideIt) {
  status_.stop_after = 2000;
  status_.steps = 1989;
  status_.swarm_steps = 2000;
  log_->on(status_);
  EXPECT_EQ(take(), "step 1989/2000 · 99 % · 3 peers\n");
  Finished end;
  static_cast<AgentStatus&>(end) = status_;
  end.steps = 2013;
  log_->on(end);
  EXPECT_EQ(take(), "step 2013 · swarm 2000/2000 · 100 % · 3 peers\n");
}

TEST_F(ProgressTest, AnAccuracyOfLongAgoNamesItsStep) {
  log_->on(Evaluated{0, 0.1, 2.3});
  status_.accuracy = 0.1;
  log_->on(status_);
  EXPECT_NE(take().find("acc 10.0 % · 3"), std::string::npos);
  for (int i = 0; i < 30; ++i) step(10);
  EXPECT_NE(take().find("acc 10.0 % at step 0 · 3"), std::string::npos);
}

TEST_F(ProgressTest, PartAndTimeLeftAreOfTheSwarmWhoseStepsAreShownThen) {
  for (int i = 0; i < 31; ++i) {
    step(4);
    status_.swarm_steps += 36;
  }
  EXPECT_EQ(take(), "step 4/2000 · 0 % · 3 peers\nstep 124 · swarm 1204/2000 · 60 % · ETA 19 s · 3 peers\n");
}

TEST_F(ProgressTest, WithoutAnEndThereIsNoPartAndNoTimeLeft) {
  status_.stop_after = 0;
  status_.steps_per_s = 0.254;
  for (int i = 0; i < 31; ++i) step(1);
  EXPECT_EQ(take(), "step 1 · 0.25 steps/s · 3 peers\nstep 31 · 0.25 steps/s · 3 peers\n");
}

TEST_F(ProgressTest, AnAgentThatJoinsHasNoProgress) {
  status_.phase = "joining";
  log_->on(status_);
  EXPECT_EQ(take(), "");
}

}  // namespace
}  // namespace starling
