// The turn to touch the params: a fake loop on a thread of its own has it, or the test in the place of the agent.
#include "agent/attach/handover.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <utility>

namespace starling {
namespace {

using Answer = Handover::Answer;
constexpr Duration kAtOnce = Duration::zero(), kPatience = std::chrono::seconds(30);

Handover::Bytes bytes(std::initializer_list<int> values) {
  Handover::Bytes all;
  for (const int value : values) all.push_back(static_cast<std::byte>(value));
  return all;
}

class HandoverTest : public testing::Test {
 protected:
  void give(uint32_t count) { handover.give({.count = count, .learning_rate = 0.5}); }

  SteadyClock clock;
  Handover handover{clock};
};

TEST_F(HandoverTest, TheLoopHasTheParamsForTheStepsThatItWasGiven) {
  int woken = 0;
  handover.set_wake([&woken] { ++woken; });
  EXPECT_TRUE(handover.with_agent());
  EXPECT_EQ(handover.wait(kAtOnce), Answer::kAgain);
  give(3);
  EXPECT_FALSE(handover.with_agent());
  EXPECT_EQ(handover.wait(kAtOnce), Answer::kChanged);
  EXPECT_EQ(handover.step(10, 4, kAtOnce), Answer::kGo);
  EXPECT_EQ(handover.step(10, 2, kAtOnce), Answer::kGo);
  EXPECT_EQ(woken, 0);
  EXPECT_EQ(handover.step(10, 0, kAtOnce), Answer::kAgain);
  EXPECT_EQ(woken, 1);
  EXPECT_TRUE(handover.with_agent());
  const StepReport report = handover.take();
  EXPECT_EQ(report.steps, 3u);
  EXPECT_EQ(report.samples, 30u);
  EXPECT_DOUBLE_EQ(report.mean_loss, 2);
  EXPECT_TRUE(report.finite);
  EXPECT_EQ(handover.steps(), 3u);
  EXPECT_DOUBLE_EQ(handover.rate(), 0.5);
}

TEST_F(HandoverTest, ALossThatIsNotFiniteAndAnAgentThatStopsEndTheSteps) {
  give(8);
  (void)handover.wait(kAtOnce);
  EXPECT_EQ(handover.step(1, std::numeric_limits<double>::quiet_NaN(), kAtOnce), Answer::kAgain);
  EXPECT_FALSE(handover.take().finite);

  bool stop = false;
  handover.give({.count = 8, .stop = [&stop] { return stop; }});
  (void)handover.wait(kAtOnce);
  EXPECT_EQ(handover.step(1, 1, kAtOnce), Answer::kGo);
  stop = true;
  EXPECT_EQ(handover.step(1, 1, kAtOnce), Answer::kAgain);
  EXPECT_EQ(handover.take().steps, 2u);
}

TEST_F(HandoverTest, AWholeRoundEndsWithItsLastStepWhateverHappens) {
  handover.keep_rounds_whole();
  EXPECT_EQ(handover.steps_left(), 0u);
  handover.give({.count = 3, .stop = [] { return true; }});
  (void)handover.wait(kAtOnce);
  EXPECT_EQ(handover.steps_left(), 3u);
  EXPECT_EQ(handover.step(1, std::numeric_limits<double>::quiet_NaN(), kAtOnce), Answer::kGo);
  EXPECT_EQ(handover.step(1, 1, kAtOnce), Answer::kGo);
  EXPECT_EQ(handover.steps_left(), 1u);
  EXPECT_EQ(handover.step(1, 1, kAtOnce), Answer::kAgain);
  EXPECT_EQ(handover.steps_left(), 0u);
  EXPECT_FALSE(handover.take().finite);

  give(2);
  (void)handover.wait(kAtOnce);
  EXPECT_EQ(handover.step(1, 1, kAtOnce), Answer::kGo);
  handover.end("an error");
  EXPECT_EQ(handover.steps_left(), 1u);
  EXPECT_EQ(handover.step(1, 1, kAtOnce), Answer::kFailed);
  EXPECT_EQ(handover.steps(), 5u);
}

TEST_F(HandoverTest, ALoopThatCopiesIsAskedForItsParamsAtABoundaryAlone) {
  int woken = 0;
  handover.set_wake([&woken] { ++woken; });
  handover.ask_for_params();
  give(2);
  EXPECT_EQ(handover.wait(kAtOnce), Answer::kChanged);
  EXPECT_EQ(handover.step(10, 1, kAtOnce), Answer::kGo);
  EXPECT_EQ(handover.step(10, 0, kAtOnce), Answer::kParamsWanted);
  EXPECT_EQ(handover.step(10, 9, kAtOnce), Answer::kParamsWanted) << "a step more, which is not counted";
  EXPECT_FALSE(handover.with_agent());
  EXPECT_EQ(woken, 0);
  handover.add_loss(5);
  EXPECT_EQ(handover.wait(kAtOnce), Answer::kAgain);
  EXPECT_TRUE(handover.with_agent());
  EXPECT_EQ(woken, 1);
  const StepReport report = handover.take();
  EXPECT_EQ(report.steps, 2u);
  EXPECT_EQ(report.samples, 20u);
  EXPECT_DOUBLE_EQ(report.mean_loss, 3);
  EXPECT_TRUE(report.finite);
  handover.add_loss(100);  // too late
  EXPECT_DOUBLE_EQ(handover.take().mean_loss, 3);
  give(1);
  (void)handover.wait(kAtOnce);
  EXPECT_EQ(handover.step(10, 0, kAtOnce), Answer::kParamsWanted);
  handover.add_loss(std::numeric_limits<double>::infinity());
  EXPECT_EQ(handover.wait(kAtOnce), Answer::kAgain);
  EXPECT_FALSE(handover.take().finite);
}

TEST_F(HandoverTest, TheEndReachesALoopThatIsAskedForItsParams) {
  handover.ask_for_params();
  give(1);
  (void)handover.wait(kAtOnce);
  EXPECT_EQ(handover.step(1, 0, kAtOnce), Answer::kParamsWanted);
  handover.end("");
  EXPECT_EQ(handover.wait(kAtOnce), Answer::kOver);
  EXPECT_TRUE(handover.with_agent());
  EXPECT_EQ(handover.take().steps, 1u);

  Handover left(clock);
  left.ask_for_params();
  left.give({.count = 1});
  (void)left.wait(kAtOnce);
  EXPECT_EQ(left.step(1, 0, kAtOnce), Answer::kParamsWanted);
  left.leave();
  EXPECT_TRUE(left.with_agent());
  left.give({.count = 1});
  EXPECT_EQ(left.wait(kAtOnce), Answer::kAgain) << "no turn follows";
}

TEST_F(HandoverTest, AStepInTheAgentsTurnIsNotCounted) {
  EXPECT_EQ(handover.step(1, 1, kAtOnce), Answer::kAgain);
  give(1);
  EXPECT_EQ(handover.step(1, 1, kAtOnce), Answer::kChanged);  // taken before the loop knew
  EXPECT_EQ(handover.step(1, 1, kAtOnce), Answer::kAgain);
  EXPECT_EQ(handover.take().steps, 1u);
}

TEST_F(HandoverTest, ALoopThatLeftIsGivenNoMoreSteps) {
  give(8);
  (void)handover.wait(kAtOnce);
  (void)handover.step(1, 1, kAtOnce);
  handover.leave();
  EXPECT_TRUE(handover.with_agent());
  EXPECT_EQ(handover.take().steps, 1u);
  give(8);
  EXPECT_TRUE(handover.with_agent());
  EXPECT_EQ(handover.take().steps, 0u);
}

TEST_F(HandoverTest, TheEndAndItsErrorReachALoopThatWaits) {
  std::thread agent([this] { handover.end(""); });
  EXPECT_EQ(handover.wait(kPatience), Answer::kOver);
  agent.join();
  give(4);  // the model was lost while the members agreed
  EXPECT_TRUE(handover.with_agent());
  std::thread failing([this] { handover.end("the disk is full"); });
  while (handover.wait(kPatience) != Answer::kFailed) {
  }
  EXPECT_EQ(handover.error(), "the disk is full");
  failing.join();
}

TEST_F(HandoverTest, ACheckpointHasTheStateOfALoopThatWaits) {
  Handover::Bytes saved;
  std::thread worker([&] { saved = handover.ask_for_state(); });
  while (handover.wait(kPatience) != Answer::kStateWanted) {
  }
  const Handover::Bytes state = bytes({1, 2, 3});
  handover.give_state(state);
  worker.join();
  EXPECT_EQ(saved, state);

  handover.restore(bytes({4}));
  give(1);
  EXPECT_EQ(handover.wait(kAtOnce), Answer::kRestored);
  handover.took_restored();
  EXPECT_EQ(*handover.restored(), bytes({4}));
  EXPECT_EQ(handover.wait(kAtOnce), Answer::kGo);
}

TEST_F(HandoverTest, AFreshStateDoesNotReplaceWhatIsToBeRestored) {
  handover.restore(bytes({4}));
  EXPECT_EQ(handover.ask_for_state(), bytes({4})) << "before the loop had a turn";
  handover.give_state(bytes({9}));
  EXPECT_EQ(handover.ask_for_state(), bytes({4}));
  give(1);
  EXPECT_EQ(handover.wait(kAtOnce), Answer::kRestored);
  handover.took_restored();
  handover.give_state(bytes({9}));
  handover.leave();
  EXPECT_EQ(handover.ask_for_state(), bytes({9})) << "the loop has taken it, and went on";
}

TEST_F(HandoverTest, TheLastCheckpointHasTheStateAfterTheLastStep) {
  handover.give_state(bytes({1}));
  handover.end("");
  EXPECT_EQ(handover.wait(kAtOnce), Answer::kOver);
  Handover::Bytes saved;
  std::thread worker([&] { saved = handover.ask_for_state(); });
  while (handover.wait(kPatience) != Answer::kStateWanted) {
  }
  handover.give_state(bytes({5}));
  worker.join();
  EXPECT_EQ(saved, bytes({5}));
  EXPECT_EQ(handover.ask_for_state(), bytes({5})) << "and is not asked again";
}

TEST_F(HandoverTest, NobodyWaitsForTheStateOfALoopThatFinishes) {
  handover.give_state(bytes({1}));
  handover.finishing();
  EXPECT_FALSE(handover.over());
  handover.end("");
  EXPECT_TRUE(handover.over());
  Handover::Bytes saved;
  std::thread worker([&] { saved = handover.ask_for_state(); });
  handover.finishing();
  worker.join();
  EXPECT_EQ(saved, bytes({1}));
}

// It may be twice as large as the model.
TEST_F(HandoverTest, AStateIsKeptUntilACheckpointHasIt) {
  const auto ask = [&](const std::function<void()>& answer) {
    Handover::Bytes saved;
    std::string missing;
    std::thread worker([&] {
      try {
        saved = handover.ask_for_state();
      } catch (const StateMissing& caught) {
        missing = caught.what();
      }
    });
    while (handover.wait(kPatience) != Answer::kStateWanted) {
    }
    answer();
    worker.join();
    return std::pair(saved, missing);
  };
  EXPECT_EQ(ask([&] { handover.give_state(bytes({1, 2})); }).first, bytes({1, 2}));
  const auto [saved, missing] = ask([&] { handover.has_no_state(); });
  EXPECT_TRUE(saved.empty());
  EXPECT_NE(missing.find("no state of its optimizer"), std::string::npos) << "the one before is not written again";
  handover.restore(bytes({3}));
  give(1);
  EXPECT_EQ(handover.wait(kAtOnce), Answer::kRestored);
  handover.took_restored();
  EXPECT_EQ(*handover.restored(), bytes({3}));
  handover.give_state(bytes({4}));
  EXPECT_EQ(handover.restored(), nullptr);
}

TEST_F(HandoverTest, ALoopThatLeavesNeedNotGiveItsStateAgainBeforeItsNextStep) {
  give(8);
  (void)handover.wait(kAtOnce);
  handover.give_state(bytes({1}));
  std::thread worker([&] { handover.leave(); });
  worker.join();
  EXPECT_EQ(handover.ask_for_state(), bytes({1}));
  EXPECT_EQ(handover.ask_for_state(), bytes({1})) << "and again, where the disk was full";
}

TEST_F(HandoverTest, ALoopThatLeavesWithoutItsStateKeepsTheCheckpointBefore) {
  give(8);
  (void)handover.wait(kAtOnce);
  handover.give_state(bytes({1}));
  (void)handover.step(1, 1, kAtOnce);
  handover.has_no_state();
  handover.leave();
  EXPECT_THROW((void)handover.ask_for_state(), StateMissing);
}

TEST_F(HandoverTest, ARestartIsToldUntilItsStateIsTaken) {
  handover.restore(bytes({4}));
  give(2);
  EXPECT_EQ(handover.wait(kAtOnce), Answer::kRestored);
  EXPECT_EQ(handover.wait(kAtOnce), Answer::kRestored) << "an interrupt came in between";
  handover.took_restored();
  EXPECT_EQ(handover.wait(kAtOnce), Answer::kGo);
}

TEST_F(HandoverTest, WhatALoopCouldNotTakeIsSavedAgain) {
  handover.restore(bytes({3}));
  give(1);
  EXPECT_EQ(handover.wait(kAtOnce), Answer::kRestored);
  handover.took_restored();
  handover.has_no_state();
  handover.leave();
  EXPECT_EQ(handover.ask_for_state(), bytes({3}));
}

TEST_F(HandoverTest, NobodyWaitsForTheStateOfALoopThatIsGone) {
  handover.give_state(bytes({7}));
  handover.leave();
  EXPECT_EQ(handover.ask_for_state(), bytes({7}));
}

// Neither side locks what both write: the turn alone keeps them apart.
TEST_F(HandoverTest, TwoThreadsNeverTouchTheParamsAtOnce) {
  constexpr int kRounds = 2000;
  std::array<int, 16> params{};
  std::atomic<bool> handed_over = false;
  handover.set_wake([&handed_over] { handed_over = true; });
  std::thread loop([&] {
    for (;;) {
      Answer answer = handover.wait(kPatience);
      while (answer == Answer::kGo || answer == Answer::kChanged) {
        for (int& param : params) ++param;
        answer = handover.step(1, 1, kPatience);
      }
      if (answer == Answer::kOver) return;
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    handed_over = false;
    give(3);
    while (!handed_over) std::this_thread::yield();
    ASSERT_TRUE(handover.with_agent());
    for (int& param : params) param += 10;
  }
  handover.end("");
  loop.join();
  for (const int param : params) EXPECT_EQ(param, 13 * kRounds);
}

}  // namespace
}  // namespace starling
