#include "agent/train/model_kinds.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "agent/train/model_plan.h"

namespace starling {
namespace {

TEST(ModelKinds, EachIsThereOnceAndIsFoundByItsName) {
  std::set<std::string> seen;
  for (const std::string& name : model_kind_names()) {
    EXPECT_TRUE(seen.insert(name).second) << name;
    EXPECT_EQ(model_kind(name).name, name);
    EXPECT_FALSE(model_kind(name).optimizers.empty()) << name;
  }
  EXPECT_EQ(seen.count("quadratic"), 1u);
  const std::string text = describe_model_kinds();
  EXPECT_TRUE(
      text.starts_with("attached (a loop of your own, in Python or C) | cnn | lstm (of bytes of text) | mlp | "
                       "quadratic (a toy with a known answer)"))
      << text;
}

TEST(ModelKinds, KnowHowManyParamsThereWillBe) {
  EXPECT_EQ(model_kind("quadratic").param_count({.kind = "quadratic", .dimension = 77}), 77u);
  const ModelConfig mlp{.kind = "mlp", .hidden = {30, 20}};
  EXPECT_EQ(model_kind("mlp").param_count(mlp), plan_model(mlp).param_count);
  const ModelConfig small{.kind = "mlp", .input = {1, 1, 3}, .classes = 2, .hidden = {5}};
  EXPECT_EQ(count_elements(small), 3u * 5 + 5 + 5 * 2 + 2) << "without padding";
  EXPECT_LT(count_elements(small), plan_model(small).param_count);
  EXPECT_EQ(count_elements({.kind = "quadratic", .dimension = 77}), 77u);
  EXPECT_THROW(model_kind("cnn").param_count({.kind = "cnn", .input = {1, 8, 8}}), std::runtime_error);
}

TEST(ModelKinds, ALoopOfItsUsersOwnIsNotTrainedHere) {
  EXPECT_NO_THROW(refuse_attached({.kind = "mlp"}));
  try {
    refuse_attached({.kind = "attached", .params = 77});
    FAIL() << "it would be trained";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("(77 params with padding)"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("starling.join(model, optimizer, ...)"), std::string::npos);
  }
}

TEST(ModelKinds, RefuseAnOptimizerThatCannotTrainThem) {
  OptimizerConfig optimizer;
  optimizer.kind = "adamw";
  EXPECT_NO_THROW(refuse_optimizer("mlp", optimizer));
  EXPECT_FALSE(model_kind("quadratic").needs_data);
  try {
    refuse_optimizer("quadratic", optimizer);
    FAIL() << "adamw was taken";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the quadratic model is trained with sgd, not adamw; set swarm.optimizer.kind: sgd");
  }
}

}  // namespace
}  // namespace starling
