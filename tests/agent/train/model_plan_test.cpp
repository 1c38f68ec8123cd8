#include "agent/train/model_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace starling {
namespace {

TEST(ModelPlan, TensorsStartOnSixtyFourBytes) {
  for (const char* kind : {"cnn", "mlp"}) {
    const ModelPlan plan = plan_model({.kind = kind});
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
}

TEST(ModelPlan, TheGenesisFollowsFromTheRngSeed) {
  const ModelPlan plan = plan_model({});
  const std::vector<float> genesis = draw_genesis(plan, 1);
  EXPECT_EQ(genesis, draw_genesis(plan, 1));
  EXPECT_NE(genesis, draw_genesis(plan, 2));
  size_t padding = plan.param_count;
  for (const ParamSlot& slot : plan.slots) {
    double sum_squares = 0;
    for (size_t i = 0; i < slot.count; ++i) {
      const double value = genesis[slot.offset + i];
      EXPECT_LE(std::abs(value), slot.init_bound);
      sum_squares += value * value;
    }
    if (slot.count > 100) {
      EXPECT_NEAR(std::sqrt(3 * sum_squares / static_cast<double>(slot.count)), slot.init_bound,
                  0.15 * slot.init_bound) << slot.name;
    }
    padding -= slot.count;
  }
  EXPECT_EQ(static_cast<size_t>(std::count(genesis.begin(), genesis.end(), 0.0f)), padding);
}

// Agents on different machines must draw the same bytes: these were drawn once and never change.
TEST(ModelPlan, TheGenesisNeverChanges) {
  const ModelPlan plan = plan_model({.kind = "mlp", .input = {1, 1, 2}, .classes = 2, .hidden = {}});
  const std::vector<float> genesis = draw_genesis(plan, 1);
  const std::vector<float> expected = {0.532540321f, 0.468457937f, -0.302117825f, 0.689112186f};
  EXPECT_EQ(std::vector<float>(genesis.begin(), genesis.begin() + 4), expected);
}

TEST(ModelPlan, SizesThatMakeNoNetworkAreRefused) {
  const std::vector<ModelConfig> wrong = {
      {.kind = "transformer"}, {.kind = "quadratic"}, {.input = {28, 28}}, {.input = {1, 0, 28}},
      {.input = {1, 13, 28}}, {.classes = 1}, {.channels = 0}, {.channels = -3},
      {.kind = "mlp", .hidden = {0}}, {.kind = "mlp", .input = {1 << 20, 1 << 20, 1 << 20}},
      {.kind = "mlp", .input = {1, int64_t{1} << 40, 1}}};
  for (const ModelConfig& model : wrong) EXPECT_THROW(plan_model(model), std::runtime_error);
  EXPECT_NO_THROW(plan_model({.input = {1, 14, 14}}));
}

}  // namespace
}  // namespace starling
