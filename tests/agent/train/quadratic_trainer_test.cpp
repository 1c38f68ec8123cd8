#include "agent/train/quadratic_trainer.h"
#include "agent/config/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/fake_clock.h"

namespace starling {
namespace {

std::vector<float> values(View view) { return {view.data, view.data + view.count}; }

TEST(QuadraticTrainer, GoesToItsTarget) {
  FakeClock clock;
  QuadraticTrainer trainer({.dimension = 50}, 1, 2, clock);
  const double loss_before = trainer.loss();
  trainer.start_steps({200, 0.1});
  const StepReport report = trainer.take_steps();
  EXPECT_EQ(report.steps, 200u);
  EXPECT_TRUE(report.finite);
  EXPECT_GT(report.mean_loss, 0);
  EXPECT_LT(report.mean_loss, loss_before);
  EXPECT_LT(trainer.loss(), 1e-12);
}

TEST(QuadraticTrainer, OneStepIsWhatTheFormulaSays) {
  FakeClock clock;
  QuadraticTrainer trainer({.dimension = 3, .momentum = 0.5, .batch = 4}, 1, 2, clock);
  std::vector<float> x = values(trainer.params()), v(3, 0.0f);
  for (int step = 0; step < 3; ++step) {
    trainer.start_steps({1, 0.25});
    EXPECT_EQ(trainer.take_steps().samples, 4u);
    for (size_t i = 0; i < 3; ++i) {
      v[i] = 0.5f * v[i] + (x[i] - trainer.target()[i]);
      x[i] -= 0.25f * v[i];
    }
    EXPECT_EQ(values(trainer.params()), x);
    EXPECT_EQ(values(trainer.momentum()), v);
  }
}

TEST(QuadraticTrainer, GenesisIsTheSwarmsAndTheTargetItsOwn) {
  FakeClock clock;
  QuadraticTrainer a({}, 1, 2, clock), b({}, 1, 3, clock), other_swarm({}, 2, 2, clock);
  EXPECT_EQ(values(a.params()), values(b.params()));
  EXPECT_EQ(values(a.params()), quadratic_genesis({}, 1));
  EXPECT_NE(values(a.params()), values(other_swarm.params()));
  EXPECT_FALSE(std::equal(a.target().begin(), a.target().end(), b.target().begin()));
  EXPECT_TRUE(std::equal(a.target().begin(), a.target().end(), other_swarm.target().begin()));
}

TEST(QuadraticTrainer, IsBusyUntilItsStepTimeHasPassed) {
  FakeClock clock;
  QuadraticTrainer trainer({.step_time = std::chrono::milliseconds(10)}, 1, 2, clock);
  EXPECT_TRUE(trainer.idle());
  trainer.start_steps({3, 0.1});
  EXPECT_FALSE(trainer.idle());
  EXPECT_EQ(trainer.idle_at(), clock.now() + std::chrono::milliseconds(30));
  clock.advance(std::chrono::nanoseconds(29'999'999));
  EXPECT_FALSE(trainer.idle());
  clock.advance(std::chrono::nanoseconds(1));
  EXPECT_TRUE(trainer.idle());
  EXPECT_EQ(trainer.take_steps().compute_time, std::chrono::milliseconds(30));
}

TEST(QuadraticTrainer, LearningRateZeroTouchesNothing) {
  FakeClock clock;
  QuadraticTrainer trainer({.momentum = 0.9, .step_time = std::chrono::milliseconds(1)}, 1, 2, clock);
  trainer.start_steps({5, 0.1});
  clock.advance(std::chrono::milliseconds(5));
  const auto params = values(trainer.params()), momentum = values(trainer.momentum());
  trainer.start_steps({7, 0});
  EXPECT_FALSE(trainer.idle());  // it still takes its time
  clock.advance(std::chrono::milliseconds(7));
  EXPECT_EQ(trainer.take_steps().steps, 7u);
  EXPECT_EQ(values(trainer.params()), params);
  EXPECT_EQ(values(trainer.momentum()), momentum);
}

TEST(QuadraticTrainer, ResumesExactly) {
  FakeClock clock;
  const QuadraticOptions options{.dimension = 20, .momentum = 0.9, .gradient_noise = 0.5};
  QuadraticTrainer trainer(options, 1, 2, clock), resumed(options, 1, 2, clock);
  trainer.start_steps({10, 0.1});
  ASSERT_TRUE(resumed.load_state(trainer.save_state()));
  std::copy_n(trainer.params().data, 20, resumed.params().data);
  std::copy_n(trainer.momentum().data, 20, resumed.momentum().data);
  trainer.start_steps({10, 0.1});
  resumed.start_steps({10, 0.1});
  EXPECT_EQ(values(trainer.params()), values(resumed.params()));
  EXPECT_EQ(values(trainer.momentum()), values(resumed.momentum()));
  EXPECT_EQ(trainer.save_state(), resumed.save_state());

  QuadraticTrainer other({.dimension = 21}, 1, 2, clock);
  EXPECT_FALSE(other.load_state(trainer.save_state()));
  EXPECT_FALSE(resumed.load_state({}));
  auto damaged = trainer.save_state();
  damaged[0] ^= std::byte{1};
  EXPECT_FALSE(resumed.load_state(damaged));
}

TEST(QuadraticTrainer, GradientNoiseHasItsDeviation) {
  FakeClock clock;
  const size_t n = 20000;
  QuadraticTrainer quiet({.dimension = n}, 1, 2, clock), noisy({.dimension = n, .gradient_noise = 0.5}, 1, 2, clock);
  quiet.start_steps({1, 1});
  noisy.start_steps({1, 1});
  double sum = 0, sum_squares = 0;
  for (size_t i = 0; i < n; ++i) {
    const double difference = quiet.params().data[i] - noisy.params().data[i];
    sum += difference;
    sum_squares += difference * difference;
  }
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(std::sqrt(sum_squares / n), 0.5, 0.01);
}

TEST(QuadraticTrainer, StopsBeforeAStepThatIsNotFinite) {
  FakeClock clock;
  QuadraticTrainer trainer({.dimension = 4}, 1, 2, clock);
  trainer.params().data[2] = std::numeric_limits<float>::quiet_NaN();
  const float first = trainer.params().data[0];
  trainer.start_steps({3, 0.1});
  const StepReport report = trainer.take_steps();
  EXPECT_FALSE(report.finite);
  EXPECT_EQ(report.steps, 0u);
  EXPECT_EQ(trainer.params().data[0], first);
}

TEST(QuadraticTrainer, TheGridHoldsIntegers) {
  FakeClock clock;
  QuadraticTrainer trainer({.dimension = 500, .integer_grid = true}, 1, 2, clock);
  float lowest = 0, highest = 0;
  for (const float target : trainer.target()) {
    EXPECT_EQ(target, std::round(target));
    lowest = std::min(lowest, target);
    highest = std::max(highest, target);
  }
  EXPECT_EQ(lowest, -8);
  EXPECT_EQ(highest, 8);
  for (const float x : values(trainer.params())) EXPECT_EQ(x, std::round(x));
  QuadraticTrainer zeros({.dimension = 5, .zero_genesis = true}, 1, 2, clock);
  EXPECT_EQ(values(zeros.params()), std::vector<float>(5, 0.0f));
}

TEST(QuadraticTrainer, EvaluatesItsLossOnce) {
  FakeClock clock;
  QuadraticTrainer trainer({}, 1, 2, clock);
  EXPECT_FALSE(trainer.take_evaluation());
  trainer.start_evaluation();
  const auto evaluation = trainer.take_evaluation();
  ASSERT_TRUE(evaluation);
  EXPECT_EQ(evaluation->samples, 0u);
  EXPECT_EQ(evaluation->loss, trainer.loss());
  EXPECT_FALSE(trainer.take_evaluation());
}

TEST(QuadraticTrainer, TheConfigurationIsChecked) {
  FakeClock clock;
  SwarmConfig swarm;
  swarm.model.kind = "quadratic";
  AgentConfig agent;
  agent.compute_ms = 2.5;
  const auto trainer = make_quadratic_trainer(trainer_options(swarm, agent), 1, clock);
  EXPECT_EQ(trainer->params().count, 1000u);
  EXPECT_EQ(trainer->momentum().count, 1000u);
  trainer->start_steps({2, 0.1});
  EXPECT_EQ(trainer->idle_at(), clock.now() + std::chrono::milliseconds(5));
  swarm.optimizer.momentum = 0;
  EXPECT_EQ(make_quadratic_trainer(trainer_options(swarm, agent), 1, clock)->momentum().count, 0u);
  for (const auto& spoil :
       {+[](SwarmConfig& s) { s.optimizer.kind = "adamw"; }, +[](SwarmConfig& s) { s.optimizer.nesterov = true; },
        +[](SwarmConfig& s) { s.optimizer.weight_decay = 0.1; }, +[](SwarmConfig& s) { s.model.dimension = 0; }}) {
    SwarmConfig wrong = swarm;
    spoil(wrong);
    EXPECT_THROW(make_quadratic_trainer(trainer_options(wrong, agent), 1, clock), std::runtime_error);
  }
}

// A table of two layers, the second one twice as long in backward; forward takes 4 ms.
std::vector<FinalPart> parts_of_a_step(double compute_ms, StepReport* report) {
  TrainerOptions options;
  options.model = {.kind = "quadratic", .dimension = 50};
  options.optimizer.momentum = 0;
  options.compute_ms = compute_ms;
  options.forward_s = 0.004;
  options.layers = {{30, 0.004}, {20, 0.002}};
  FakeClock clock;
  const auto trainer = make_quadratic_trainer(options, 1, clock);
  std::vector<FinalPart> parts;
  trainer->start_steps({1, 0.1, {}, [&](FinalPart part) {
                          part.at = TimePoint(part.at - clock.now());
                          parts.push_back(part);
                          return true;
                        }});
  clock.advance(trainer->idle_at() - clock.now());
  *report = trainer->take_steps();
  return parts;
}

TEST(QuadraticTrainer, TellsOfLayersWhenBackwardHasComeToTheirEnd) {
  using std::chrono::milliseconds;
  for (const double compute_ms : {0.0, 40.0}) {  // as the table says, and four times slower
    StepReport report;
    const std::vector<FinalPart> parts = parts_of_a_step(compute_ms, &report);
    const int slower = compute_ms > 0 ? 4 : 1;
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts[0].offset, 20u);
    EXPECT_EQ(parts[0].count, 30u);
    EXPECT_EQ(parts[0].at, TimePoint(slower * milliseconds(8)));
    EXPECT_EQ(parts[1].offset, 0u);
    EXPECT_EQ(parts[1].count, 20u);
    EXPECT_EQ(parts[1].at, TimePoint(slower * milliseconds(10)));
    EXPECT_EQ(report.compute_time, slower * milliseconds(10));
    EXPECT_EQ(report.backward_time, slower * milliseconds(6));
    EXPECT_EQ(report.forward_time, slower * milliseconds(4));
  }
}

// The processor is left to what is measured: each step moves a sixteenth of the params, and sixteen steps move all.
TEST(QuadraticTrainer, WithLayersAStepMovesAFewParamsInTurn) {
  FakeClock clock;
  QuadraticTrainer trainer({.dimension = 20000, .layers = {{20000, 0.001}}}, 1, 2, clock);
  const std::vector<float> before = values(trainer.params());
  std::vector<size_t> moved;
  for (int step = 0; step < 16; ++step) {
    trainer.start_steps({1, 0.5});
    (void)trainer.take_steps();
    size_t count = 0;
    for (size_t i = 0; i < before.size(); ++i) count += trainer.params().data[i] != before[i];
    moved.push_back(count);
  }
  EXPECT_NEAR(static_cast<double>(moved[0]), 20000 / 16.0, 256);
  for (size_t i = 1; i < moved.size(); ++i) EXPECT_GT(moved[i], moved[i - 1]);
  EXPECT_EQ(moved.back(), before.size());
}

TEST(QuadraticTrainer, LayersOfAnotherSizeAreRefused) {
  TrainerOptions options;
  options.model = {.kind = "quadratic", .dimension = 51};
  options.optimizer.momentum = 0;
  options.layers = {{30, 0.004}, {20, 0.002}};
  FakeClock clock;
  try {
    make_quadratic_trainer(options, 1, clock);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(),
                 "the layers of STARLING_TEST_LAYERS have 50 params, the model has 51; set "
                 "swarm.model.dimension: 50");
  }
}

TEST(QuadraticTrainer, ACorrectionIsAddedToEachGradient) {
  FakeClock clock;
  QuadraticTrainer plain({.dimension = 3, .momentum = 0.5}, 1, 2, clock);
  QuadraticTrainer corrected({.dimension = 3, .momentum = 0.5}, 1, 2, clock);
  const std::vector<float> correction = {1, -2, 0};
  plain.start_steps({1, 0.25});
  corrected.start_steps({1, 0.25, {correction.data(), correction.size(), MemorySpace::kHost}});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(corrected.momentum().data[i] - plain.momentum().data[i], correction[i], 1e-6);
    EXPECT_NEAR(corrected.params().data[i] - plain.params().data[i], -0.25 * correction[i], 1e-6);
  }
}

}  // namespace
}  // namespace starling
