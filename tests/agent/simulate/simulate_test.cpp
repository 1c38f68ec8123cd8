// Simulated swarms of quadratics, whose optimum is known, and the rivals they are compared with, whose steps and times
// have closed forms.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "agent/commands/commands.h"
#include "agent/simulate/averaged_baselines.h"
#include "agent/simulate/baselines.h"
#include "agent/simulate/report.h"
#include "agent/simulate/timed_trainer.h"
#include "agent/train/quadratic_trainer.h"
#include "agent/train/trainer_thread.h"
#include "gossip/sim/virtual_network.h"

namespace starling {
namespace {

using std::chrono::milliseconds;

constexpr size_t kDimension = 40;

Config quadratic_config() {
  Config config;
  config.has_swarm = true;
  config.swarm.model.kind = "quadratic";
  config.swarm.model.dimension = kDimension;
  config.swarm.optimizer.learning_rate = 0.1;
  config.swarm.optimizer.momentum = 0.5;
  config.swarm.exchange.carry_momentum = true;
  config.swarm.exchange.overlap = Overlap::kOff;
  config.swarm.settle_max = std::chrono::seconds(2);
  config.swarm.stop_after = 60;
  config.agent.checkpoint_every = milliseconds(200);
  return config;
}

SwarmOutcome run_swarm(const SimulateOptions& options, const Config& config) {
  spdlog::set_level(spdlog::level::off);
  const auto task = make_quadratic_task(config, options.agents);
  return run_simulated_swarm(options, config, *task, [](double, const auto&) {});
}

std::vector<CurvePoint> run_rivals(const SimulateOptions& options, const Config& config) {
  const auto task = make_quadratic_task(config, options.agents);
  return run_baselines(options, config.swarm, *task, [](const std::string&, uint64_t) {});
}

std::vector<CurvePoint> of_agent(const std::vector<CurvePoint>& points, size_t agent) {
  std::vector<CurvePoint> chosen;
  for (const CurvePoint& point : points) {
    if (point.agent == agent) chosen.push_back(point);
  }
  return chosen;
}

std::vector<CurvePoint> of_series(const std::vector<CurvePoint>& points, const std::string& series) {
  std::vector<CurvePoint> chosen;
  for (const CurvePoint& point : points) {
    if (point.series == series) chosen.push_back(point);
  }
  return chosen;
}

// A trainer with a thread of its own, as LibTorch's has.
class ThreadedTrainer final : public Trainer {
 public:
  ThreadedTrainer(std::unique_ptr<Trainer> inner, std::function<void()> on_idle)
      : inner_(std::move(inner)), thread_(std::move(on_idle)) {}
  std::vector<TrainerSection> sections() override { return inner_->sections(); }
  void params_changed() override { inner_->params_changed(); }
  void start_steps(const LocalSteps& steps) override {
    thread_.start([this, steps] { inner_->start_steps(steps); });
  }
  void start_evaluation() override {
    thread_.start([this] { inner_->start_evaluation(); });
  }
  TimePoint idle_at() const override { return thread_.idle() ? TimePoint::min() : TimePoint::max(); }
  StepReport take_steps() override { return inner_->take_steps(); }
  std::optional<Evaluation> take_evaluation() override { return inner_->take_evaluation(); }
  std::vector<std::byte> save_state() override { return inner_->save_state(); }
  bool load_state(std::span<const std::byte> state) override { return inner_->load_state(state); }
  TrainerData data() const override { return {1, ""}; }

 private:
  std::unique_ptr<Trainer> inner_;
  TrainerThread thread_;
};

TEST(TimedTrainer, IsBusyForItsStepsAndEvaluatesInNoTime) {
  VirtualClock clock;
  const SwarmConfig swarm = quadratic_config().swarm;
  for (const bool threaded : {false, true}) {
    TimedTrainer trainer(
        [&](std::function<void()> on_idle) -> std::unique_ptr<Trainer> {
          std::unique_ptr<Trainer> inner = make_quadratic_trainer(trainer_options(swarm, {}), 7, clock);
          if (!threaded) return inner;
          return std::make_unique<ThreadedTrainer>(std::move(inner), std::move(on_idle));
        },
        clock, milliseconds(20));
    const View params = trainer.params();
    const float before = params.data[0];
    EXPECT_EQ(trainer.evaluated_params().data[0], before);
    for (int round = 0; round < 50; ++round) {
      const TimePoint start = clock.now();
      const float mixed = params.data[0];
      trainer.start_steps({3, 0.1});
      EXPECT_EQ(trainer.evaluated_params().data[0], mixed) << "also while it steps, and until the next exchange";
      EXPECT_FALSE(trainer.idle());
      EXPECT_EQ(trainer.untaken().steps, 3u);
      EXPECT_EQ(trainer.idle_at(), start + milliseconds(60));
      clock.advance(milliseconds(59));
      EXPECT_FALSE(trainer.idle());
      clock.advance(milliseconds(1));
      ASSERT_TRUE(trainer.idle());
      const StepReport report = trainer.take_steps();
      EXPECT_EQ(report.steps, 3u);
      EXPECT_EQ(report.compute_time, Duration(milliseconds(60)));
      EXPECT_EQ(report.forward_time, Duration(milliseconds(20)));
      EXPECT_EQ(report.backward_time, Duration(milliseconds(40)));
      EXPECT_EQ(trainer.untaken().steps, 0u);
      trainer.start_evaluation();
      EXPECT_TRUE(trainer.idle());
      EXPECT_TRUE(trainer.take_evaluation().has_value());
    }
    EXPECT_NE(params.data[0], before);
  }
}

TEST(Simulate, EightAgentsFindTheMeanOfTheirTargets) {
  Config config = quadratic_config();
  config.swarm.stop_after = 300;
  config.swarm.weight = "equal";
  config.swarm.optimizer.schedule = Schedule::kCosine;  // a constant rate leaves each agent pulling at the others
  SimulateOptions options;
  options.loss = 0.02;
  options.jitter = milliseconds(3);
  const SwarmOutcome outcome = run_swarm(options, config);
  EXPECT_TRUE(outcome.finished);
  EXPECT_GT(outcome.done, 100u);
  const auto mean = of_series(outcome.points, "mean");
  ASSERT_GT(mean.size(), 10u);
  EXPECT_EQ(mean.front().step, 0u);
  EXPECT_EQ(mean.front().virtual_s, 0);
  EXPECT_GE(mean.back().step, 290u);  // the swarm's clock is a median
  EXPECT_LT(mean.back().score.loss, 0.002 * mean.front().score.loss);
  for (size_t a = 0; a < options.agents; ++a) {
    const auto own = of_agent(outcome.points, a);
    ASSERT_EQ(own.size(), mean.size());
    EXPECT_LT(own.back().score.loss, 0.005 * mean.front().score.loss);
    EXPECT_GT(own.back().bytes, 0u);
  }
  EXPECT_LT(*mean.back().distance, 0.02);
  uint64_t bytes = 0;
  for (size_t a = 0; a < options.agents; ++a) bytes += of_agent(outcome.points, a).back().bytes;
  EXPECT_EQ(mean.back().bytes, bytes);
}

// The round after the last steps as well: until its exchange has ended, an agent's params hold own steps that no other
// has, and it evaluates and hands out the model before them. Those steps may lead far away (a vote takes others).
TEST(Simulate, ShowsTheModelThatAnAgentEvaluatesWhileItSettles) {
  Config config = quadratic_config();
  config.swarm.optimizer.momentum = 0;
  config.swarm.stop_after = 120;
  config.swarm.weight = "equal";
  ExchangeConfig& exchange = config.swarm.exchange;
  exchange.carry_momentum = false;
  exchange.kind = ExchangeKind::kGroup;
  exchange.source = SourceKind::kGradients;
  SimulateOptions options;
  options.agents = 4;
  options.latency = milliseconds(25);  // so the models are looked at more than once in a round
  options.every = options.compute;
  size_t settling = 0;
  for (const CurvePoint& point : run_swarm(options, config).points) {
    if (point.step < 100) continue;
    EXPECT_LT(*point.distance, 1e-3) << point.series << " at step " << point.step << ", " << point.virtual_s << " s";
    settling += point.step == 120;
  }
  EXPECT_GE(settling, 10u);
}

// An exchange comes whole or not at all, unlike with lost frames, and each that is lost ends as one that failed. The
// turn of two that have decided nothing yet is brief, so a few first meetings mix a part.
TEST(Simulate, LosesExchangesAsAWhole) {
  Config config = quadratic_config();
  config.swarm.stop_after = 300;
  SimulateOptions options;
  options.agents = 6;
  options.exchange_loss = 0.2;
  const SwarmOutcome outcome = run_swarm(options, config);
  const double lost = static_cast<double>(outcome.failed);
  const double proposed = lost + static_cast<double>(outcome.done) / 2;  // both ends count one that is done
  EXPECT_GT(proposed, 600);
  EXPECT_GT(lost, 0.1 * proposed);
  EXPECT_LT(lost, 0.4 * proposed);
  constexpr uint64_t kFirstMeetings = 2 * 6 * 5 / 2;  // of each pair, by either's proposal
  EXPECT_LE(outcome.late, kFirstMeetings);
  EXPECT_EQ(outcome.blocks.missing, outcome.late);
}

// Exchanges while settling have no steps between them.
TEST(Simulate, ExchangesAStepAreThoseOfTraining) {
  Config config = quadratic_config();
  config.swarm.exchange.carry_momentum = false;
  config.swarm.stop_after = 50;
  SimulateOptions options;
  options.agents = 16;
  const SwarmOutcome outcome = run_swarm(options, config);
  EXPECT_GT(outcome.done, 2u * 16 * 50) << "they settled for a while";
  for (const auto& pairs : outcome.pairs) {
    ASSERT_TRUE(pairs && pairs->exchanges_a_step() && pairs->drift);
    EXPECT_NEAR(*pairs->exchanges_a_step(), 1, 0.15) << pairs->name;
    EXPECT_NEAR(*pairs->drift, 2, 0.5) << pairs->name;  // 0.47 of a difference left by an exchange, momentum 0.5
  }
}

TEST(Simulate, TheSameOptionsGiveTheSameBytes) {
  SimulateOptions options;
  options.loss = 0.05;
  options.jitter = milliseconds(5);
  options.speeds = {1, 2};
  options.scenario.add_kill("3@0.4");
  options.scenario.add_join("@0.6");
  options.baselines = baseline_names();
  std::erase_if(options.baselines, [](const std::string& name) { return name.starts_with("powersgd"); });  // no matrix
  Config config = quadratic_config();
  std::string first;
  uint64_t digest = 0;
  for (int run = 0; run < 2; ++run) {
    SimulationReport report;
    report.swarm = run_swarm(options, config);
    report.baselines = run_rivals(options, config);
    if (run == 0) {
      first = print_curve_csv(report);
      digest = report.swarm.digest;
    } else {
      EXPECT_EQ(print_curve_csv(report), first);
      EXPECT_EQ(report.swarm.digest, digest);
    }
  }
  config.swarm.rng_seed = 2;
  EXPECT_NE(run_swarm(options, config).digest, digest);
}

TEST(Simulate, KillsJoinsAndPausesHappenWhenPlanned) {
  Config config = quadratic_config();
  config.swarm.stop_after = 200;
  SimulateOptions options;
  options.agents = 6;
  options.every = milliseconds(100);
  options.scenario.add_kill("2@1");
  options.scenario.add_join("@1.5");
  options.scenario.add_pause("4@0.5+0.8");
  const SwarmOutcome outcome = run_swarm(options, config);
  EXPECT_TRUE(outcome.finished);
  EXPECT_TRUE(outcome.remarks.empty()) << outcome.remarks[0];
  for (auto& e : outcome.events) std::printf("EV %s %g\n", e.text.c_str(), e.virtual_s);
  ASSERT_EQ(outcome.events.size(), 4u);
  EXPECT_EQ(outcome.events[0].text, "agent 4 paused");
  EXPECT_EQ(outcome.events[1].text, "agent 2 killed");
  EXPECT_DOUBLE_EQ(outcome.events[1].virtual_s, 1.0);
  EXPECT_EQ(outcome.events[3].text, "agent 6 joins");
  EXPECT_NEAR(of_agent(outcome.points, 2).back().virtual_s, 0.9, 0.11);
  const auto newcomer = of_agent(outcome.points, 6);
  ASSERT_FALSE(newcomer.empty()) << "it never trained";
  EXPECT_GT(newcomer.front().virtual_s, 1.5);
  EXPECT_GT(newcomer.front().step, 10u) << "it began with the genesis, not with the swarm's model";
  std::map<std::string, uint64_t> steps;
  for (const CurvePoint& point : of_agent(outcome.points, 4)) {
    if (point.virtual_s > 0.55 && point.virtual_s < 1.25) ++steps[std::to_string(point.step)];
  }
  EXPECT_EQ(steps.size(), 1u) << "a paused agent made steps";
  const auto mean = of_series(outcome.points, "mean");
  for (size_t i = 1; i < mean.size(); ++i) {
    EXPECT_GE(mean[i].samples, mean[i - 1].samples) << "the samples of the killed agent were forgotten";
    EXPECT_GE(mean[i].bytes, mean[i - 1].bytes);
  }
}

// A task that keeps which shards were asked for.
struct ShardsKept final : SimTask {
  explicit ShardsKept(std::unique_ptr<SimTask> task) : inner(std::move(task)) {}
  std::unique_ptr<Trainer> make(size_t shard, const SwarmConfig& swarm, const Clock& clock,
                                std::function<void()> on_idle) override {
    shards.push_back(shard);
    return inner->make(shard, swarm, clock, std::move(on_idle));
  }
  bool has_trainer_for_all() const override { return inner->has_trainer_for_all(); }
  std::unique_ptr<Trainer> make_for_all(const SwarmConfig& swarm, const Clock& clock,
                                        std::function<void()> on_idle) override {
    return inner->make_for_all(swarm, clock, std::move(on_idle));
  }
  SimScore score(std::span<const float> params, const std::vector<size_t>& held) override {
    return inner->score(params, held);
  }
  std::unique_ptr<SimTask> inner;
  std::vector<size_t> shards;
};

TEST(Simulate, NewcomersTakeTheShardsOfKilledAgentsLastFirst) {
  spdlog::set_level(spdlog::level::off);
  Config config = quadratic_config();
  config.swarm.stop_after = 200;
  SimulateOptions options;
  options.agents = 4;
  for (const char* kill : {"1@0.5", "3@0.6"}) options.scenario.add_kill(kill);
  for (const char* join : {"@1", "@1.2", "@1.4"}) options.scenario.add_join(join);
  ShardsKept task(make_quadratic_task(config, options.agents));
  (void)run_simulated_swarm(options, config, task, [](double, const auto&) {});
  EXPECT_EQ(task.shards, (std::vector<size_t>{0, 1, 2, 3, 3, 1, 0}));
}

TEST(Simulate, AnAgentKilledAtTheStartIsNotLookedAt) {
  Config config = quadratic_config();
  config.swarm.stop_after = 20;
  for (const uint32_t agents : {1u, 3u}) {
    SimulateOptions options;
    options.agents = agents;
    options.scenario.add_kill("0@0");
    const SwarmOutcome outcome = run_swarm(options, config);
    EXPECT_TRUE(of_agent(outcome.points, 0).empty());
    EXPECT_EQ(of_agent(outcome.points, 1).empty(), agents == 1);
  }
}

// However fast the agents are, and in the same instant in every run.
TEST(Simulate, WhatIsPlannedForAStepHappensAtThatStep) {
  Config config = quadratic_config();
  config.swarm.stop_after = 200;
  SimulateOptions options;
  options.agents = 5;
  options.every = milliseconds(20);
  options.scenario.add_kill("2@step50");
  options.scenario.add_join("@step80");
  options.scenario.add_pause("4@step30+0.4");
  options.scenario.add_kill("0@step100000");
  const SwarmOutcome outcome = run_swarm(options, config);
  EXPECT_TRUE(outcome.finished);
  ASSERT_EQ(outcome.remarks.size(), 1u);
  EXPECT_NE(outcome.remarks[0].find("the kill planned for step 100000 did not happen"), std::string::npos);
  std::map<std::string, double> moments;
  for (const SimEvent& event : outcome.events) {
    if (event.text.find(" warns: ") == std::string::npos) moments[event.text] = event.virtual_s;
  }
  ASSERT_EQ(moments.size(), 4u);
  EXPECT_EQ(outcome.events[0].text, "agent 4 paused");
  EXPECT_NEAR(moments["agent 4 goes on"] - moments["agent 4 paused"], 0.4, 1e-9);
  const auto step_at = [&](double virtual_s) {  // the median over the living, when they were looked at before
    std::vector<uint64_t> steps;
    for (size_t agent = 0; agent < 5; ++agent) {
      std::optional<uint64_t> step;
      for (const CurvePoint& point : of_agent(outcome.points, agent)) {
        if (point.virtual_s <= virtual_s && point.virtual_s > virtual_s - 0.03) step = point.step;
      }
      if (step) steps.push_back(*step);
    }
    std::sort(steps.begin(), steps.end());
    return static_cast<double>(steps.at(steps.size() / 2));
  };
  EXPECT_NEAR(step_at(moments["agent 4 paused"]), 30, 5);
  EXPECT_NEAR(step_at(moments["agent 2 killed"]), 50, 5);
  EXPECT_NEAR(step_at(moments["agent 5 joins"]), 80, 5);
  EXPECT_EQ(run_swarm(options, config).digest, outcome.digest);
}

TEST(Simulate, WhatCannotHappenIsSaid) {
  SimulateOptions options;
  options.agents = 2;
  for (const char* kill : {"1@0.1", "1@0.2", "0@1000"}) options.scenario.add_kill(kill);
  const SwarmOutcome outcome = run_swarm(options, quadratic_config());
  ASSERT_EQ(outcome.remarks.size(), 2u);
  EXPECT_NE(outcome.remarks[0].find("agent 1 was not there"), std::string::npos);
  EXPECT_NE(outcome.remarks[1].find("did not happen"), std::string::npos);
}

TEST(Simulate, ASlowAgentMakesFewerSteps) {
  SimulateOptions options;
  options.agents = 4;
  options.speeds = {1, 1, 1, 4};
  options.duration = std::chrono::seconds(3);
  Config config = quadratic_config();
  config.swarm.stop_after = 0;
  const SwarmOutcome outcome = run_swarm(options, config);
  EXPECT_FALSE(outcome.finished);
  EXPECT_DOUBLE_EQ(outcome.virtual_s, 3);
  const auto fast = static_cast<double>(of_agent(outcome.points, 0).back().step);
  const auto slow = static_cast<double>(of_agent(outcome.points, 3).back().step);
  EXPECT_GT(fast, 40);
  EXPECT_LT(slow, 0.55 * fast);
  EXPECT_LE(slow, 3 / 0.08 + 1);
}

// Heavy ball on the mean of the targets, in doubles.
std::vector<double> descend(const Config& config, size_t agents, uint64_t steps) {
  std::vector<double> target(kDimension), x, v(kDimension), losses;
  const VirtualClock clock;
  const auto task = make_quadratic_task(config, agents);
  for (size_t a = 0; a < agents; ++a) {
    const auto trainer = task->make(a, config.swarm, clock, {});
    const auto& quadratic = dynamic_cast<const QuadraticTrainer&>(*trainer);
    for (size_t i = 0; i < kDimension; ++i) target[i] += quadratic.target()[i] / static_cast<double>(agents);
    if (a == 0) x.assign(trainer->params().data, trainer->params().data + kDimension);
  }
  for (uint64_t k = 0; k <= steps; ++k) {
    double loss = 0;
    for (size_t i = 0; i < kDimension; ++i) {
      loss += 0.5 * (x[i] - target[i]) * (x[i] - target[i]) / kDimension;
      v[i] = config.swarm.optimizer.momentum * v[i] + (x[i] - target[i]);
      x[i] -= config.swarm.optimizer.learning_rate * v[i];
    }
    losses.push_back(loss);
  }
  return losses;
}

TEST(Baselines, AllreduceAndServerDescendOnTheMeanTarget) {
  const Config config = quadratic_config();
  SimulateOptions options;
  options.every = options.compute;
  options.baselines = {"allreduce", "parameter-server"};
  const std::vector<double> expected = descend(config, options.agents, config.swarm.stop_after);
  const auto points = run_rivals(options, config);
  for (const std::string& name : options.baselines) {
    const auto own = of_series(points, name);
    ASSERT_EQ(own.size(), expected.size());
    for (size_t k = 0; k < own.size(); ++k) {
      EXPECT_EQ(own[k].step, k);
      EXPECT_NEAR(own[k].score.loss, expected[k], 1e-4 * expected[k] + 1e-11) << name << " step " << k;
    }
  }
}

TEST(Baselines, OneWorkersAsgdAndSerialAreThatToo) {
  Config config = quadratic_config();
  SimulateOptions options;
  options.agents = 1;
  options.every = options.compute;
  options.baselines = {"asgd", "serial"};
  const std::vector<double> expected = descend(config, 1, config.swarm.stop_after);
  for (const CurvePoint& point : run_rivals(options, config)) {
    EXPECT_NEAR(point.score.loss, expected[point.step], 1e-4 * expected[point.step] + 1e-11)
        << point.series << " step " << point.step;
  }
}

TEST(Baselines, StaleGradientsStillFindTheOptimum) {
  Config config = quadratic_config();
  config.swarm.stop_after = 200;
  for (const double momentum : {0.0, 0.5}) {
    config.swarm.optimizer.momentum = momentum;
    SimulateOptions options;
    options.baselines = {"asgd", "local-sgd"};
    const auto points = run_rivals(options, config);
    for (const std::string& name : options.baselines) {
      const auto own = of_series(points, name);
      EXPECT_LT(own.back().score.loss, 1e-3 * own.front().score.loss) << name;
      EXPECT_EQ(own.back().samples, 200u * options.agents * config.swarm.batch) << name;
    }
  }
}

TEST(Baselines, AnAllreduceTakesTheFastestOfItsForms) {
  const SimLink link{.latency_s = 0.01, .bytes_per_s = 1e6};
  const AllreduceTimes eight = allreduce_times(8, 800'000, link);
  EXPECT_NEAR(eight.ring_s, 14 * (0.01 + 0.1), 1e-12);
  EXPECT_NEAR(eight.halving_doubling_s, 2 * (3 * 0.01 + 0.4 + 0.2 + 0.1), 1e-12);
  EXPECT_NEAR(eight.two_latencies_s, 2 * (0.01 + 7 * 0.1), 1e-12);
  EXPECT_EQ(eight.best_s(), eight.two_latencies_s);
  const AllreduceTimes six = allreduce_times(6, 600'000, link);  // two of them stand aside
  EXPECT_NEAR(six.ring_s, 10 * (0.01 + 0.1), 1e-12);
  EXPECT_NEAR(six.halving_doubling_s, 2 * (0.01 + 0.6) + 2 * (2 * 0.01 + 0.3 + 0.15), 1e-12);
  EXPECT_NEAR(six.two_latencies_s, 2 * (0.01 + 5 * 0.1), 1e-12);
  const AllreduceTimes two = allreduce_times(2, 100'000, link);
  for (const double time_s : {two.ring_s, two.halving_doubling_s, two.two_latencies_s}) {
    EXPECT_NEAR(time_s, 0.12, 1e-12);
  }
  EXPECT_EQ(allreduce_times(1, 100'000, link).best_s(), 0);
  EXPECT_EQ(allreduce_times(8, 800'000, {.latency_s = 0.01}).best_s(), 0.02);
}

// Both average all models over the same network, so neither can be faster than a node's bytes through its uplink.
TEST(Simulate, AGroupIsNotFasterThanTheBestAllreduce) {
  Config config = quadratic_config();
  config.swarm.model.dimension = 25000;  // 100 kB
  config.swarm.exchange.kind = ExchangeKind::kGroup;
  config.swarm.exchange.codec = CodecKind::kFp32;
  config.swarm.exchange.carry_momentum = false;
  config.swarm.stop_after = 20;
  SimulateOptions options;
  options.agents = 4;
  options.bytes_per_s = 1e6;
  const double step =
      seconds(options.compute) + allreduce_times(4, 100'000, {seconds(options.latency), options.bytes_per_s}).best_s();
  double steps_done = 0, taken = 0;
  for (const CurvePoint& point : of_agent(run_swarm(options, config).points, 0)) {
    if (point.step == 0 || point.step >= 20) continue;  // after the last step they settle
    steps_done = static_cast<double>(point.step);
    taken = point.virtual_s;
  }
  EXPECT_GT(steps_done, 5);
  EXPECT_GT(taken, (steps_done - 1) * step);
}

TEST(Baselines, TimesAndBytesFollowTheFormulas) {
  Config config = quadratic_config();
  config.swarm.model.dimension = 25000;  // 100 kB
  config.swarm.stop_after = 20;
  SimulateOptions options;
  options.agents = 5;
  options.speeds = {1, 3};
  options.jitter = milliseconds(4);  // mean latency 12 ms
  options.bytes_per_s = 1e6;
  options.baselines = {"allreduce", "allreduce-buckets", "local-sgd", "parameter-server", "serial"};
  const auto points = run_rivals(options, config);
  const double slowest = 0.06, latency = 0.012, payload = 0.1;  // s
  const double talk = 2 * (latency + payload * 4 / 5);          // in two latencies
  const auto last = [&](const char* name) { return of_series(points, name).back(); };
  EXPECT_NEAR(last("allreduce").virtual_s, 20 * (slowest + talk), 1e-9);
  EXPECT_EQ(last("allreduce").bytes, 20u * 2 * 4 * 100000);
  EXPECT_NEAR(last("allreduce-buckets").virtual_s, 20 * (slowest + talk), 1e-9);  // one vector: nothing to overlap
  EXPECT_EQ(last("allreduce-buckets").bytes, 20u * 2 * 4 * 100000);
  EXPECT_NEAR(last("parameter-server").virtual_s, 20 * (slowest + 2 * latency + 2 * 5 * payload), 1e-9);
  EXPECT_EQ(last("parameter-server").bytes, 20u * 2 * 5 * 100000);
  EXPECT_NEAR(last("local-sgd").virtual_s, 20 * slowest + 3 * talk, 1e-9);  // 8 + 8 + 4 steps
  EXPECT_EQ(last("local-sgd").bytes, 3u * 2 * 4 * 100000);
  EXPECT_NEAR(last("serial").virtual_s, 20 * 5 * 0.02, 1e-9);
  EXPECT_EQ(last("serial").bytes, 0u);
  config.swarm.local_steps = 10;
  EXPECT_NEAR(of_series(run_rivals(options, config), "local-sgd").back().virtual_s, 20 * slowest + 2 * talk, 1e-9);

  // One worker alone: compute, up, apply; and down again before the next.
  options.agents = 1;
  options.baselines = {"asgd"};
  const CurvePoint alone = run_rivals(options, config).back();
  EXPECT_NEAR(alone.virtual_s, 20 * (0.02 + latency + payload) + 19 * (latency + payload), 1e-9);
  // Where the server's link is the neck, so many payloads take their time, and no more.
  options.agents = 5;
  options.speeds = {1};
  const CurvePoint neck = run_rivals(options, config).back();
  EXPECT_NEAR(neck.virtual_s, 100 * payload, 4 * (0.02 + 2 * latency + payload));
}

TEST(Baselines, AveragingGradientsNeedsSgd) {
  Config config = quadratic_config();
  config.swarm.optimizer.kind = "adamw";
  SimulateOptions options;
  const auto task = make_quadratic_task(quadratic_config(), options.agents);
  for (const char* name : {"allreduce", "allreduce-buckets", "powersgd-2", "topk-layers", "parameter-server", "asgd"}) {
    options.baselines = {name};
    try {
      run_baselines(options, config.swarm, *task, [](const std::string&, uint64_t) {});
      ADD_FAILURE() << name;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find("needs swarm.optimizer.kind sgd"), std::string::npos) << error.what();
    }
  }
}

class SimulateCommand : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("starling-simulate-" + std::to_string(getpid()));
    std::filesystem::create_directories(dir_);
    std::ofstream(dir_ / "swarm.yaml") << "swarm:\n  model: {kind: quadratic, dimension: 10}\n"
                                          "  consensus_timeout: 1s\n  optimizer: {kind: sgd, learning_rate: 0.1}\n";
    options_.config_path = (dir_ / "swarm.yaml").string();
    options_.out = (dir_ / "out").string();
    options_.agents = 3;
    options_.steps = 20;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string failure() {
    try {
      run_simulate_command(options_, {});
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "none";
  }
  std::string read(const char* name) {
    std::ifstream file(std::filesystem::path(options_.out) / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path dir_;
  SimulateOptions options_;
};

TEST_F(SimulateCommand, WritesWellFormedFiles) {
  options_.baselines = {"none", "serial", "allreduce", "serial"};
  options_.scenario.add_kill("2@0.2");
  testing::internal::CaptureStdout();
  ASSERT_EQ(run_simulate_command(options_, {}), 0);
  const std::string table = testing::internal::GetCapturedStdout();
  EXPECT_NE(table.find("allreduce"), std::string::npos) << table;
  EXPECT_NE(table.find("agent 2 killed"), std::string::npos) << table;
  std::istringstream shown(table.substr(table.find("series ")));
  for (std::string row; std::getline(shown, row) && !row.empty();) EXPECT_LE(row.size(), 80u) << row;
  std::istringstream csv(read("curve.csv"));
  std::string line;
  ASSERT_TRUE(std::getline(csv, line));
  EXPECT_EQ(line, kCurveHeader);
  std::map<std::string, int> rows;
  while (std::getline(csv, line)) {
    ASSERT_EQ(std::count(line.begin(), line.end(), ','), 8) << line;
    std::istringstream cells(line);
    std::string series, cell;
    std::getline(cells, series, ',');
    ++rows[series];
    std::getline(cells, cell, ',');
    EXPECT_EQ(cell.empty(), series != "swarm") << line;
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(std::getline(cells, cell, ','));
      EXPECT_NO_THROW(static_cast<void>(std::stod(cell))) << line;
    }
  }
  EXPECT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows["serial"], rows["allreduce"]);
  EXPECT_GT(rows["swarm"], 2 * rows["mean"]);
  const std::string json = read("summary.json"), page = read("report.html");
  for (const char* key : {"\"digest\"", "\"virtual_s\"", "\"agents\": 3", "\"mean\"", "\"exchanges\"", "\"done\""}) {
    EXPECT_NE(json.find(key), std::string::npos) << key;
  }
  EXPECT_NE(json.find("\"ignored_messages\""), std::string::npos);
  const auto pairs = nlohmann::json::parse(json)["pairs"];
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_GT(pairs[0]["a_step"], 0.3);
  EXPECT_GT(pairs[0]["ms_a_step"]["asking"], 0);
  EXPECT_EQ(table.find("pair exchanges"), std::string::npos) << "no internals unless asked for";
  EXPECT_EQ(table.find('('), table.find("(average)")) << "and no legend";
  EXPECT_NE(page.find("\"pair_facts\":{\"agents\":[\"agent 0\""), std::string::npos);
  EXPECT_EQ(table.find("blocks due"), std::string::npos) << "pairs have no blocks that are due every round";
  EXPECT_NE(page.find("agent 2 killed"), std::string::npos);
  for (size_t at = 0; (at = page.find("http", at)) != std::string::npos; ++at) {
    EXPECT_EQ(page.compare(at, 18, "http://www.w3.org/"), 0) << "an outside address";  // the name of SVG
  }
}

TEST_F(SimulateCommand, DetailsShowHowThePairExchangesWent) {
  options_.details = true;
  testing::internal::CaptureStdout();
  ASSERT_EQ(run_simulate_command(options_, {}), 0);
  const std::string text = testing::internal::GetCapturedStdout();
  const size_t at = text.find("\npair exchanges");
  ASSERT_NE(at, std::string::npos) << text;
  std::istringstream shown(text.substr(at + 1));
  std::string row;
  ASSERT_TRUE(std::getline(shown, row));
  EXPECT_NE(row.find("agent 0  agent 1  agent 2"), std::string::npos) << row;
  ASSERT_TRUE(std::getline(shown, row));
  EXPECT_TRUE(row.starts_with("exchanges per local step ")) << row;
}

// A config of `init` waits for two agents, whatever number is simulated.
TEST_F(SimulateCommand, AllAgentsStartAtOneMoment) {
  options_.overrides = {"swarm.wait_for=9"};
  options_.duration = std::chrono::seconds(60);
  testing::internal::CaptureStdout();
  ASSERT_EQ(run_simulate_command(options_, {}), 0);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(text.find("\n0 exchanges done"), std::string::npos) << text;
}

TEST_F(SimulateCommand, TheReportShowsTheLogsOfUpdates) {
  options_.overrides = {"swarm.exchange.kind=group", "swarm.exchange.source=updates"};
  ASSERT_EQ(run_simulate_command(options_, {}), 0);
  const std::string page = read("report.html");
  const size_t at = page.find("\"logs\":[{\"head\":\"");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(page.find("\"entries\":0,", at), std::string::npos);
  options_.overrides = {"swarm.exchange.kind=group", "swarm.exchange.codec=fp32"};
  ASSERT_EQ(run_simulate_command(options_, {}), 0);
  EXPECT_NE(read("report.html").find("\"logs\":[null"), std::string::npos);
}

TEST_F(SimulateCommand, ExchangesInRoundsSayWhatBecameOfTheirBlocks) {
  options_.overrides = {"swarm.exchange.kind=group", "swarm.exchange.codec=fp32", "--inject-loss=0.2",
                        "swarm.exchange.block=64"};
  testing::internal::CaptureStdout();
  ASSERT_EQ(run_simulate_command(options_, {}), 0);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_NE(text.find("\nblocks due "), std::string::npos) << text;
  EXPECT_NE(text.find(" % injected\n"), std::string::npos) << text;
  const BlockTally blocks{.due = 1234567, .counted = 1172839, .late = 61728};
  EXPECT_EQ(print_blocks_line(blocks), "blocks due 1,234,567: 95.0 % counted, 5.0 % late");
  EXPECT_EQ(print_blocks_line({}), "blocks due 0");
}

TEST_F(SimulateCommand, IsRepeatedByTheConfigBesideItsReport) {
  options_.command_line = "starling simulate --config swarm.yaml";
  options_.rng_seed = 7;
  options_.overrides = {"swarm.exchange.kind=neighborhood", "swarm.exchange.codec=fp32", "swarm.topology.kind=ring"};
  testing::internal::CaptureStdout();
  EXPECT_EQ(failure(), "none");
  const std::string said = testing::internal::GetCapturedStdout(), first = read("summary.json");
  EXPECT_TRUE(said.starts_with("3 agents, quadratic, neighborhood, fp32, ring, rng seed 7; links")) << said;
  EXPECT_NE(said.find("/report.html, with config.yaml beside it\n"), std::string::npos) << said;
  EXPECT_TRUE(read("config.yaml").starts_with("# starling simulate --config swarm.yaml\n")) << read("config.yaml");
  options_.overrides.clear();
  options_.rng_seed.reset();
  options_.steps.reset();
  options_.config_path = (std::filesystem::path(options_.out) / "config.yaml").string();
  EXPECT_NE(failure().find("config.yaml is the --config and would be overwritten; name another --out"),
            std::string::npos);
  options_.out = (dir_ / "again").string();
  EXPECT_EQ(failure(), "none");
  EXPECT_EQ(read("summary.json"), first);
}

TEST_F(SimulateCommand, TheHeadNamesTheExchange) {
  const auto head = [&](std::vector<std::string> overrides) {
    options_.overrides = std::move(overrides);
    testing::internal::CaptureStdout();
    EXPECT_EQ(failure(), "none");
    const std::string said = testing::internal::GetCapturedStdout();
    return said.substr(0, said.find(", rng seed"));
  };
  EXPECT_EQ(head({}), "3 agents, quadratic, pairwise, modulo8, matching");
  EXPECT_EQ(head({"swarm.exchange.kind=group", "swarm.exchange.codec=bf16"}), "3 agents, quadratic, group, bf16");
  EXPECT_EQ(head({"swarm.exchange.kind=group", "swarm.exchange.source=updates", "swarm.exchange.update.codec=topk"}),
            "3 agents, quadratic, group of updates, topk");
  EXPECT_EQ(head({"swarm.exchange.kind=none"}), "3 agents, quadratic, exchange none");
}

TEST_F(SimulateCommand, WhatBaselinesDoNotSufferIsSaid) {
  options_.loss = 0.01;
  options_.scenario.add_kill("2@0.2");
  EXPECT_EQ(failure(), "none");
  EXPECT_EQ(read("summary.json").find("baselines run without"), std::string::npos) << "there are none";
  options_.baselines = {"serial"};
  testing::internal::CaptureStdout();
  EXPECT_EQ(failure(), "none");
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_NE(text.find("\nbaselines run without --loss, --kill: "), std::string::npos) << text;
  EXPECT_NE(read("report.html").find("baselines run without --loss, --kill: "), std::string::npos);
}

TEST_F(SimulateCommand, WrongStartsSayWhatToDo) {
  const SimulateOptions good = options_;
  const auto fails_with = [&](const char* part) {
    const std::string text = failure();
    EXPECT_NE(text.find(part), std::string::npos) << text;
    options_ = good;
  };
  options_.steps.reset();
  fails_with("--steps");
  options_.scenario.add_kill("3@1");
  fails_with("--kill 3@1: the agents are 0 to 2");
  options_.scenario.add_pause("9@1+1");
  fails_with("--pause 9@1: the agents are 0 to 2");
  options_.speeds = {1, 1, 1, 8};
  fails_with("--speeds names 4 factors, and the agents are 3; leave some out");
  options_.exchange_loss = 0.1;
  options_.overrides = {"swarm.exchange.kind=neighborhood", "swarm.exchange.codec=fp32"};
  fails_with("--lose-exchanges: only pairs lose exchanges as a whole");
  options_.overrides = {"swarm.topology.kind=file", "swarm.topology.edges=[agent-0 agent-1]"};
  fails_with("names no edge of 'agent-2'");
  options_.baselines = {"alreduce"};
  fails_with("did you mean 'allreduce'?");
  options_.baselines = {"powersgd-3"};
  fails_with("did you mean 'powersgd-");
  options_.baselines = {"powersgd-2"};
  fails_with("model quadratic has none; compare with allreduce");
  options_.baselines = {"zzzzzzzz"};
  fails_with("choose one of allreduce");
  options_.steps.reset();
  options_.duration = std::chrono::seconds(1);
  options_.baselines = {"serial"};
  fails_with("--steps N");
  options_.compute = Duration::zero();
  fails_with("--compute");
  options_.agents = 1024;
  options_.scenario.add_join("@1");
  fails_with("at most 1024");
  options_.out = (dir_ / "swarm.yaml").string();
  fails_with("--out");
  options_.compute = Duration::zero();
  options_.scenario.add_kill("3@1");
  options_.baselines = {"alreduce"};
  options_.overrides = {"swarm.exchange.members=[agent-0, agent-7]", "swarm.exchange.kind=group",
                        "swarm.exchange.codec=fp32"};
  const std::string all = failure();
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 3) << "all at once: " << all;
  for (const char* part : {"'alreduce'", "--compute 0s", "--kill 3@1", "names 'agent-7'"}) {
    EXPECT_NE(all.find(part), std::string::npos) << all;
  }
}

TEST_F(SimulateCommand, RefusesNoAgentsWhateverTheConfigNames) {
  options_.agents = 0;
  options_.overrides = {"swarm.exchange.members=[agent-0,agent-1]", "swarm.exchange.kind=group",
                        "swarm.exchange.codec=fp32"};
  EXPECT_EQ(failure(), "--agents 0: a swarm needs at least one agent");
}

TEST(SimulationTable, ComparesWithBaselinesAtEqualSteps) {
  const auto at = [](const char* series, std::optional<size_t> agent, uint64_t step, double accuracy) {
    CurvePoint point{series, agent, 0.01 * static_cast<double>(step), step};
    point.score = {.loss = 1 - accuracy, .accuracy = accuracy};
    return point;
  };
  SimulationReport report;
  for (const auto& [step, accuracy] :
       std::vector<std::pair<uint64_t, double>>{{0, 0.1}, {30, 0.5}, {48, 0.7}, {63, 0.9}}) {
    report.swarm.points.push_back(at("swarm", 0, step, accuracy));
    report.swarm.points.push_back(at("mean", std::nullopt, step, accuracy));
  }
  report.steps = 50;
  report.baselines = {at("allreduce", std::nullopt, 0, 0.1), at("allreduce", std::nullopt, 50, 0.8)};
  const std::string table = print_simulation_table(report);
  const size_t mean = table.find("mean model"), within = table.find("by step 50"), rival = table.find("allreduce");
  ASSERT_TRUE(mean < within && within < rival && rival != std::string::npos) << table;
  EXPECT_NE(table.substr(within, rival - within).find(" 48 "), std::string::npos) << table;
  EXPECT_NE(table.substr(within, rival - within).find("70.0 %"), std::string::npos) << table;
  EXPECT_NE(table.find("Baselines take 50 steps.\nAgents end later"), std::string::npos) << table;
  const auto json = [&] { return nlohmann::json::parse(print_simulation_json(report))["by_step"]; };
  EXPECT_EQ(json()["steps"], 48);
  EXPECT_DOUBLE_EQ(json()["accuracy"], 0.7);
  report.baselines.clear();
  EXPECT_NE(print_simulation_table(report).find("  by step 50 "), std::string::npos);
  EXPECT_EQ(print_simulation_table(report).find("Baselines"), std::string::npos);
  report.steps = 70;
  EXPECT_EQ(print_simulation_table(report).find("by step"), std::string::npos) << "the swarm ended before";
  EXPECT_TRUE(json().is_null());
  report.baselines = {at("allreduce", std::nullopt, 70, 0.8)};
  const std::string before = print_simulation_table(report);
  EXPECT_NE(before.find("Baselines take 70 steps.\n"), std::string::npos) << before;
  EXPECT_EQ(before.find("by step"), std::string::npos) << before;
}

}  // namespace
}  // namespace starling
