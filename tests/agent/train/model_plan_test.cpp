#include "agent/train/model_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace starling {
namespace {

std::vector<float> genesis_of(const ModelPlan& plan, uint64_t seed) {
  std::vector<float> params(plan.param_count, -1.0f);
  draw_genesis(plan, seed, params);
  return params;
}

TEST(ModelPlan, TensorsStartOnSixtyFourBytes) {
  for (const ModelConfig& model :
       {ModelConfig{.kind = "cnn"}, {.kind = "mlp"}, {.kind = "vgg"}, {.kind = "lstm", .input = {1, 1, 16}}}) {
    const ModelPlan plan = plan_model(model);
    size_t end = 0;
    for (const ParamSlot& slot : plan.slots) {
      EXPECT_EQ(slot.offset % kTensorAlignElements, 0u);
      EXPECT_GE(slot.offset, end);
      EXPECT_LT(slot.offset - end, kTensorAlignElements);
      end = slot.offset + slot.count;
    }
    EXPECT_EQ(plan.param_count % kTensorAlignElements, 0u);
    EXPECT_LT(plan.param_count - end, kTensorAlignElements);
  }
}

TEST(ModelPlan, KnowsTheShapes) {
  const ModelPlan cnn = plan_model({.kind = "cnn", .input = {3, 32, 20}, .classes = 7, .channels = 4});
  ASSERT_EQ(cnn.slots.size(), 6u);
  EXPECT_EQ(cnn.slots[0].shape, (std::vector<int64_t>{4, 3, 5, 5}));
  EXPECT_EQ(cnn.slots[2].shape, (std::vector<int64_t>{8, 4, 5, 5}));
  EXPECT_EQ(cnn.slots[4].shape, (std::vector<int64_t>{7, 8 * 5 * 2}));  // 32 -> 28 14 10 5, 20 -> 16 8 4 2
  const ModelPlan mlp = plan_model({.kind = "mlp", .hidden = {30, 20}});
  ASSERT_EQ(mlp.slots.size(), 6u);
  EXPECT_EQ(mlp.slots[4].name, "fc3.weight");
  EXPECT_EQ(mlp.slots[4].shape, (std::vector<int64_t>{10, 20}));
  const ModelPlan vgg = plan_model({.kind = "vgg", .input = {3, 32, 20}, .classes = 7, .hidden = {30}, .channels = 4});
  ASSERT_EQ(vgg.slots.size(), 12u);
  EXPECT_EQ(vgg.slots[6].name, "conv4.weight");
  EXPECT_EQ(vgg.slots[6].shape, (std::vector<int64_t>{16, 16, 3, 3}));
  EXPECT_EQ(vgg.slots[8].shape, (std::vector<int64_t>{30, 16 * 4 * 2}));  // 32 -> 16 8 4, 20 -> 10 5 2
  EXPECT_EQ(vgg.slots[10].shape, (std::vector<int64_t>{7, 30}));
  const ModelPlan lstm = plan_model({.kind = "lstm", .input = {1, 1, 16}, .classes = 50, .hidden = {30, 20}});
  ASSERT_EQ(lstm.slots.size(), 11u);
  EXPECT_EQ(lstm.slots[0].shape, (std::vector<int64_t>{50, 30}));
  EXPECT_EQ(lstm.slots[5].name, "lstm2.weight_ih_l0");
  EXPECT_EQ(lstm.slots[5].shape, (std::vector<int64_t>{80, 30}));
  EXPECT_EQ(lstm.slots[7].shape, (std::vector<int64_t>{80, 20}));
  EXPECT_EQ(lstm.slots[9].shape, (std::vector<int64_t>{50, 20}));
}

// Values stay as large behind many relus only if the weights are drawn for it.
TEST(ModelPlan, MatricesAreWeightsWithARowForEachOutput) {
  ModelConfig model;
  model.kind = "cnn";
  const ModelPlan plan = plan_model(model);
  const std::vector<Matrix> matrices = model_matrices(model);
  ASSERT_EQ(matrices.size(), 3u);
  EXPECT_EQ(matrices[1].rows, 16u);
  EXPECT_EQ(matrices[1].columns, 8u * 5 * 5);
  EXPECT_EQ(matrices[1].offset, plan.slots[2].offset);
}

TEST(ModelPlan, WeightsBeforeARelu) {
  const ModelPlan vgg = plan_model({.kind = "vgg", .input = {3, 32, 32}, .hidden = {30}, .channels = 4});
  EXPECT_DOUBLE_EQ(vgg.slots[0].init_bound, std::sqrt(6.0 / 27));
  EXPECT_DOUBLE_EQ(vgg.slots[8].init_bound, std::sqrt(6.0 / 256));
  EXPECT_DOUBLE_EQ(vgg.slots[10].init_bound, 1 / std::sqrt(30.0)) << "no relu behind the last";
}

TEST(ModelPlan, TheGenesisFollowsFromTheRngSeed) {
  const ModelPlan plan = plan_model({});
  const std::vector<float> genesis = genesis_of(plan, 1);
  EXPECT_EQ(genesis, genesis_of(plan, 1));
  EXPECT_NE(genesis, genesis_of(plan, 2));
  size_t padding = plan.param_count;
  for (const ParamSlot& slot : plan.slots) {
    double sum_squares = 0;
    for (size_t i = 0; i < slot.count; ++i) {
      const double value = genesis[slot.offset + i];
      EXPECT_LE(std::abs(value), slot.init_bound);
      sum_squares += value * value;
    }
    if (slot.count > 100) {
      EXPECT_NEAR(std::sqrt(3 * sum_squares / static_cast<double>(slot.count)), slot.init_bound, 0.15 * slot.init_bound)
          << slot.name;
    }
    padding -= slot.count;
  }
  EXPECT_EQ(static_cast<size_t>(std::count(genesis.begin(), genesis.end(), 0.0f)), padding);
}

// Agents on different machines must draw the same bytes: these were drawn once and never change.
TEST(ModelPlan, TheGenesisNeverChanges) {
  const ModelPlan plan = plan_model({.kind = "mlp", .input = {1, 1, 2}, .classes = 2, .hidden = {}});
  const std::vector<float> genesis = genesis_of(plan, 1);
  const std::vector<float> expected = {0.532540321f, 0.468457937f, -0.302117825f, 0.689112186f};
  EXPECT_EQ(std::vector<float>(genesis.begin(), genesis.begin() + 4), expected);
}

TEST(ModelPlan, SizesThatMakeNoNetworkAreRefused) {
  const std::vector<ModelConfig> wrong = {{.kind = "transformer"},
                                          {.kind = "quadratic"},
                                          {.input = {28, 28}},
                                          {.input = {1, 0, 28}},
                                          {.input = {1, 13, 28}},
                                          {.classes = 1},
                                          {.channels = 0},
                                          {.channels = -3},
                                          {.kind = "mlp", .hidden = {0}},
                                          {.kind = "mlp", .input = {1 << 20, 1 << 20, 1 << 20}},
                                          {.kind = "mlp", .input = {1, int64_t{1} << 40, 1}},
                                          {.kind = "vgg", .input = {3, 7, 32}},
                                          {.kind = "vgg", .channels = 0},
                                          {.kind = "vgg", .hidden = {0}},
                                          {.kind = "lstm"},
                                          {.kind = "lstm", .input = {1, 1, 16}, .hidden = {}},
                                          {.kind = "lstm", .input = {1, 1, 16}, .hidden = {8, 0}}};
  for (const ModelConfig& model : wrong) EXPECT_THROW(plan_model(model), std::runtime_error);
  EXPECT_NO_THROW(plan_model({.input = {1, 14, 14}}));
  EXPECT_NO_THROW(plan_model({.kind = "vgg", .input = {1, 8, 8}, .hidden = {}}));
  EXPECT_NO_THROW(plan_model({.kind = "lstm", .input = {1, 1, 1}}));
}

}  // namespace
}  // namespace starling
