// Simulated swarms of real models: the same bytes each time, every sample in one shard, and learning.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <semaphore>

#include "agent/data/dataset.h"
#include "agent/simulate/baselines.h"
#include "agent/simulate/report.h"
#include "agent/train/model_plan.h"
#include "gossip/sim/virtual_network.h"

namespace starling {
namespace {

Config small_config() {
  Config config;
  config.has_swarm = true;
  config.swarm.model.kind = "mlp";
  config.swarm.model.hidden = {16};
  config.swarm.batch = 32;
  config.swarm.stop_after = 30;
  config.swarm.settle_max = std::chrono::seconds(1);
  config.swarm.exchange.carry_momentum = true;
  config.swarm.exchange.overlap = Overlap::kOff;
  config.agent.data.path = "generated";
  config.agent.data.sharding = "iid";
  return config;
}

TEST(SimulateTrainers, RealModelsLearnAndReplayToTheByte) {
  spdlog::set_level(spdlog::level::off);
  const Config config = small_config();
  SimulateOptions options;
  options.agents = 3;
  options.every = std::chrono::milliseconds(300);
  options.scenario.add_kill("1@0.3");
  options.scenario.add_join("@0.4");
  options.baselines = baseline_names();
  std::string first;
  uint64_t digest = 0;
  for (int run = 0; run < 2; ++run) {
    const auto task = make_torch_task(config, options.agents);
    SimulationReport report;
    report.swarm = run_simulated_swarm(options, config, *task, [](double, const auto&) {});
    report.baselines = run_baselines(options, config.swarm, *task, [](const std::string&, uint64_t) {});
    if (run == 0) {
      first = print_curve_csv(report);
      digest = report.swarm.digest;
    } else {
      EXPECT_EQ(print_curve_csv(report), first);
      EXPECT_EQ(report.swarm.digest, digest);
    }
    for (const CurvePoint& point : {report.swarm.points.back(), report.baselines.back()}) {
      ASSERT_TRUE(point.score.accuracy.has_value());
      EXPECT_GT(*point.score.accuracy, 0.5) << point.series;  // a guess is right one time in ten
      EXPECT_LT(point.score.loss, report.swarm.points.front().score.loss);
    }
  }
}

// Its moments stay each agent's own: what it moves in five steps is the update, and no optimizer touches the replica.
TEST(SimulateTrainers, AdamWLearnsWithinTheDriftOfUpdates) {
  spdlog::set_level(spdlog::level::off);
  Config config = small_config();
  config.swarm.optimizer.kind = "adamw";
  config.swarm.optimizer.learning_rate = 0.003;
  config.swarm.local_steps = 5;
  config.swarm.stop_after = 60;
  config.swarm.exchange.kind = ExchangeKind::kGroup;
  config.swarm.exchange.source = SourceKind::kUpdates;
  config.swarm.exchange.carry_momentum = false;
  SimulateOptions options;
  options.agents = 3;
  const auto task = make_torch_task(config, options.agents);
  const SwarmOutcome outcome = run_simulated_swarm(options, config, *task, [](double, const auto&) {});
  ASSERT_TRUE(outcome.finished);
  ASSERT_EQ(outcome.logs.size(), 3u);
  for (const auto& log : outcome.logs) {
    ASSERT_TRUE(log.has_value());
    EXPECT_GE(log->counters.entries, 12u);
    EXPECT_EQ(log->head, outcome.logs[0]->head);
  }
  EXPECT_EQ(outcome.points.back().distance, 0) << "all hold the same bits";
  EXPECT_GT(outcome.points.back().score.accuracy.value_or(0), 0.5);
}

// Of three agents with a hidden layer of 2, at 100 kB/s.
std::map<std::string, std::vector<CurvePoint>> curves_of(std::vector<std::string> baselines, double density = 0.01) {
  spdlog::set_level(spdlog::level::off);
  Config config = small_config();
  config.swarm.model.hidden = {2};
  config.swarm.exchange.update.density = density;
  SimulateOptions options;
  options.agents = 3;
  options.bytes_per_s = 1e5;
  options.baselines = std::move(baselines);
  const auto task = make_torch_task(config, options.agents);
  std::map<std::string, std::vector<CurvePoint>> curves;
  for (CurvePoint& point : run_baselines(options, config.swarm, *task, [](const std::string&, uint64_t) {})) {
    curves[point.series].push_back(std::move(point));
  }
  return curves;
}

TEST(SimulateTrainers, WhatAStepIsPretendedToTakeIsNotSlept) {
  Config config = small_config();
  config.swarm.stop_after = 2;
  config.agent.compute_ms = 2'000;  // a real agent's
  SimulateOptions options;
  options.agents = 2;
  const auto start = std::chrono::steady_clock::now();
  const auto task = make_torch_task(config, options.agents);
  run_simulated_swarm(options, config, *task, [](double, const auto&) {});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// With a hidden layer of 2 no matrix has a greater rank, so PowerSGD of rank 2 is all-reduce.
TEST(SimulateTrainers, PowerSgdOfFullRankIsAllreduce) {
  auto curves = curves_of({"allreduce", "powersgd-2", "powersgd-1"});
  const auto& dense = curves["allreduce"];
  ASSERT_GT(dense.size(), 5u);
  ASSERT_EQ(curves["powersgd-2"].size(), dense.size());
  double apart = 0;
  for (size_t i = 0; i < dense.size(); ++i) {
    EXPECT_NEAR(curves["powersgd-2"][i].score.loss, dense[i].score.loss, 1e-3) << i;
    apart = std::max(apart, std::abs(curves["powersgd-1"][i].score.loss - dense[i].score.loss));
  }
  EXPECT_GT(apart, 5e-3);
  EXPECT_LT(curves["powersgd-1"].back().score.loss, dense[0].score.loss - 0.05);
  // 1,632 elements, padding included; matrices of 2 x 784 and 10 x 2.
  const double first = 4 * (1632 - 1588 + 2 * (2 + 10)), second = 4 * 2 * (784 + 2);
  const double step_s = 0.02 + 4 * 0.01 + 2 * (first + second) * 2 / 3 / 1e5;
  EXPECT_NEAR(curves["powersgd-2"].back().virtual_s, 30 * step_s, 1e-9);
  EXPECT_EQ(curves["powersgd-2"].back().bytes, static_cast<uint64_t>(30 * 2 * 2 * (first + second)));
}

// Four layers, of 1,568, 2, 20 and 10 elements in 1,632.
TEST(SimulateTrainers, TopKOfAllElementsOfEachLayerIsAllreduce) {
  auto curves = curves_of({"allreduce", "topk-layers"}, 1);
  const CurvePoint dense = curves["allreduce"].back(), all = curves["topk-layers"].back();
  EXPECT_NEAR(all.score.loss, dense.score.loss, 1e-3);
  EXPECT_EQ(all.bytes, 30u * 6 * 8 * 1600);
  const CurvePoint some = curves_of({"topk-layers"}, 0.01)["topk-layers"].back();
  EXPECT_GT(std::abs(some.score.loss - dense.score.loss), 5e-3);
  EXPECT_EQ(some.bytes, 30u * 6 * 8 * (16 + 1 + 1 + 1));
  // The first layer's 16 elements are the last to be there; those before it were sent while backward went on.
  EXPECT_NEAR(some.virtual_s, 30 * (0.02 + 0.01 + 2 * 8 * 16 / 1e5), 1e-9);
}

TEST(SimulateTrainers, ShardsAreThoseOfASwarm) {
  const Config config = small_config();
  const VirtualClock clock;
  const auto task = make_torch_task(config, 3);
  uint64_t samples = 0;
  for (size_t shard = 0; shard < 3; ++shard) {
    DataConfig data = config.agent.data;
    data.shard = static_cast<uint32_t>(shard);
    data.shard_count = 3;
    const auto trainer = task->make(shard, config.swarm, clock, {});
    const DatasetPair own = load_data(data, config.swarm.model.samples(), config.swarm.rng_seed);
    EXPECT_EQ(trainer->data().summary, summarize(own.train));
    samples += trainer->data().samples;
  }
  EXPECT_EQ(task->make_for_all(config.swarm, clock, {})->data().samples, samples);
}

// The number of threads that is fastest on the day adds floats in another order each time.
TEST(SimulateTrainers, AStepHasOneThreadWhateverTheConfigSays) {
  Config config = small_config();
  config.agent.threads = 0;  // chosen by trial in a process
  const VirtualClock clock;
  std::binary_semaphore idle(0);
  const auto task = make_torch_task(config, 1);
  const auto trainer = task->make(0, config.swarm, clock, [&] { idle.release(); });
  trainer->start_steps({1, 0.05});
  idle.acquire();
  EXPECT_EQ(trainer->take_steps().threads, 0u) << "nobody chose it";
}

// All pixels are alike, so that any model gives one answer: right for half of the samples, whichever it is. Every
// second sample would be of one label.
TEST(SimulateTrainers, AModelIsJudgedOnAllLabels) {
  std::string folder = (std::filesystem::temp_directory_path() / "starling-judge-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string count("\0\0\x0f\xa0", 4), side("\0\0\0\1", 4);  // 4000 samples of one pixel
  std::string labels;
  for (int i = 0; i < 4000; ++i) labels += static_cast<char>(i % 2);
  for (const std::string stem : {"/train", "/t10k"}) {
    std::ofstream(folder + stem + "-images-idx3-ubyte")
        << std::string("\0\0\x08\3", 4) + count + side + side << std::string(4000, '\x7f');
    std::ofstream(folder + stem + "-labels-idx1-ubyte") << std::string("\0\0\x08\1", 4) + count << labels;
  }
  Config config = small_config();
  config.swarm.model.input = {1, 1, 1};
  config.swarm.model.classes = 2;
  config.agent.data.path = folder;
  const auto task = make_torch_task(config, 1);
  const ModelPlan plan = plan_model(config.swarm.model);
  std::vector<float> genesis(plan.param_count);
  draw_genesis(plan, 1, genesis);
  const SimScore score = task->score(genesis, {0});
  EXPECT_NEAR(score.accuracy.value(), 0.5, 0.05);
  std::filesystem::remove_all(folder);
}

TEST(SimulateTrainers, AnEmptyShardIsSaidWithItsRemedy) {
  Config config = small_config();
  config.agent.data.sharding = "labels";
  try {
    make_torch_task(config, 16);
    FAIL() << "16 agents shared 10 labels";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("--set agent.data.sharding=iid"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace starling
