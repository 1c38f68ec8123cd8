// The number of threads follows what was measured: on a machine of one's own, on a shared one, and when that changes.
#include "agent/train/thread_tuner.h"

#include <gtest/gtest.h>

#include <functional>

namespace starling {
namespace {

// Trains on a made-up machine: `step_s` says what a step takes with so many threads.
class Machine {
 public:
  using StepSeconds = std::function<double(uint32_t threads)>;

  explicit Machine(uint32_t cores) : tuner_(cores) {}
  // Steps a second in so many seconds.
  double train(double for_s, const StepSeconds& step_s) {
    const TimePoint began = now_;
    uint64_t steps = 0;
    for (; now_ - began < from_seconds(for_s); ++steps) {
      const Duration took = from_seconds(step_s(tuner_.threads()));
      now_ += took;
      tuner_.took(1, took, now_);
    }
    return static_cast<double>(steps) / seconds(now_ - began);
  }
  uint32_t threads() const { return tuner_.threads(); }

 private:
  ThreadTuner tuner_;
  TimePoint now_{std::chrono::hours(1)};
};

double alone(uint32_t threads) { return 0.001 + 0.008 / threads; }
// Two agents on two cores, measured: more than one thread spends its time waiting for the other.
double beside_another(uint32_t threads) { return threads > 1 ? 0.7 : 0.014; }

TEST(ThreadTuner, AnAgentAloneKeepsAllCoresAndPaysLittleForTheTrials) {
  Machine machine(2);
  machine.train(5, alone);
  EXPECT_GT(machine.train(60, alone), 0.99 / alone(2));
  EXPECT_GT(Machine(16).train(60, alone), 0.97 / alone(16));
}

TEST(ThreadTuner, BesideAnotherAgentOneThreadIsFoundInSeconds) {
  Machine machine(2);
  machine.train(3, beside_another);
  EXPECT_EQ(machine.threads(), 1u);
  EXPECT_GT(machine.train(60, beside_another), 0.9 / beside_another(1));
}

TEST(ThreadTuner, FollowsWhoeverComesAndGoes) {
  Machine machine(2);
  machine.train(600, alone);
  machine.train(3, beside_another);  // the long pause between trials does not count
  EXPECT_EQ(machine.threads(), 1u);
  machine.train(60, beside_another);
  machine.train(120, alone);
  EXPECT_GT(machine.train(60, alone), 0.97 / alone(2));
}

TEST(ThreadTuner, FindsTheBestBetweenOneAndAll) {
  const auto best_at_4 = [](uint32_t threads) { return 0.01 / threads + 0.0006 * threads; };
  Machine machine(16);
  machine.train(20, best_at_4);
  EXPECT_GT(machine.train(60, best_at_4), 0.97 / best_at_4(4));
}

TEST(ThreadTuner, OneCoreNeedsNoTrial) {
  Machine machine(1);
  machine.train(10, [](uint32_t threads) { return threads == 1 ? 0.01 : 1e6; });
  EXPECT_EQ(machine.threads(), 1u);
}

}  // namespace
}  // namespace starling
