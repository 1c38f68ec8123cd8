#include "agent/train/torch_evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <semaphore>

#include "agent/config/config.h"
#include "agent/train/model_plan.h"
#include "agent/train/torch_trainer.h"

namespace starling {
namespace {

// 700 digits, so that the last batch is a part; a few classes are rarer.
Dataset judged_digits() {
  const Dataset drawn = draw_digits(1000, 1, 1);
  std::vector<uint32_t> kept;
  for (uint32_t i = 0; i < drawn.count(); ++i) {
    if (drawn.labels[i] < 4 || i < 500) kept.push_back(i);
  }
  return drawn.select(kept);
}

TEST(TorchEvaluation, ScoresAModelAsItsTrainerDoes) {
  SwarmConfig swarm;
  swarm.model.kind = "mlp";
  AgentConfig agent;
  agent.device = "cpu";
  agent.threads = 1;
  std::binary_semaphore idle(0);
  const auto trainer = make_torch_trainer(trainer_options(swarm, agent), draw_digits(300, 1, 0), judged_digits(),
                                          [&] { idle.release(); });
  trainer->start_steps({30, 0.05, {}});
  idle.acquire();
  trainer->start_evaluation();
  idle.acquire();
  const Evaluation expected = trainer->take_evaluation().value();
  const View params = trainer->params();

  const Dataset data = judged_digits();
  const ModelScore score = evaluate_model(swarm.model, {params.data, params.count}, data, "cpu");
  EXPECT_EQ(score.all.samples, data.count());
  EXPECT_DOUBLE_EQ(score.all.accuracy, expected.accuracy);
  EXPECT_NEAR(score.all.loss, expected.loss, 1e-6);
  EXPECT_GT(score.all.accuracy, 0.3);

  ASSERT_EQ(score.classes.size(), 10u);
  uint64_t correct = 0;
  double loss = 0;
  for (size_t i = 0; i < score.classes.size(); ++i) {
    EXPECT_EQ(score.classes[i].samples, i < 4 ? 100u : 50u) << i;
    EXPECT_LE(score.classes[i].correct, score.classes[i].samples);
    correct += score.classes[i].correct;
    loss += score.classes[i].loss_sum;
  }
  const auto count = static_cast<double>(data.count());
  EXPECT_DOUBLE_EQ(static_cast<double>(correct) / count, score.all.accuracy);
  EXPECT_NEAR(loss / count, score.all.loss, 1e-5);
}

// A network of constant scores: each class has the accuracy and loss that follow from its bias.
TEST(TorchEvaluation, EachClassHasItsOwnFigures) {
  ModelConfig model;
  model.kind = "mlp";
  model.input = {1, 1, 2};
  model.classes = 3;
  model.hidden = {};
  const ModelPlan plan = plan_model(model);
  std::vector<float> params(plan.param_count, 0.0f);
  params[plan.slots[1].offset + 2] = 1;  // the bias of class 2
  const Dataset data{{1, 1, 2}, std::vector<uint8_t>(8, 9), {2, 0, 2, 2}};
  const ModelScore score = evaluate_model(model, params, data, "cpu");
  const double sum = 2 + std::exp(1.0);
  EXPECT_DOUBLE_EQ(score.all.accuracy, 0.75);
  EXPECT_EQ(score.classes[0].samples, 1u);
  EXPECT_EQ(score.classes[0].correct, 0u);
  EXPECT_NEAR(score.classes[0].loss_sum, std::log(sum), 1e-6);
  EXPECT_EQ(score.classes[1].samples, 0u);
  EXPECT_EQ(score.classes[2].correct, 3u);
  EXPECT_NEAR(score.classes[2].loss_sum, 3 * (std::log(sum) - 1), 1e-6);
}

}  // namespace
}  // namespace starling
