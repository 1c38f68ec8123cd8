// A loop's model as the swarm knows it: by digests of its tensors.
#include "agent/attach/model_tensors.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace starling {
namespace {

std::vector<ModelTensor> some_model() {
  return {{"fc1.weight", false, {4, 8}, 0}, {"fc1.bias", false, {4}, 32}, {"norm.running_mean", true, {4}, 48}};
}

ModelConfig config_of(const std::vector<ModelTensor>& tensors) {
  return {.kind = "attached", .params = 64, .signature = signature_of(tensors)};
}

std::string difference(const std::vector<ModelTensor>& own, const std::vector<ModelTensor>& theirs) {
  return describe_model_difference(own, config_of(theirs));
}

TEST(ModelTensors, TheFirstTensorThatDiffersIsNamed) {
  EXPECT_EQ(difference(some_model(), some_model()), "");
  std::vector<ModelTensor> other = some_model();
  other[1].shape = {5};
  EXPECT_EQ(difference(other, some_model()),
            "tensor 2 of 3, 'fc1.bias' float32 [5] here, is another in the swarm (the 1 before it agree)");
  other = some_model();
  other[0].name = "fc2.weight";
  EXPECT_EQ(difference(other, some_model()),
            "tensor 1 of 3, 'fc2.weight' float32 [4, 8] here, is another in the swarm");
  other = some_model();
  other[2].averaged = false;
  EXPECT_NE(difference(other, some_model()), "");
}

TEST(ModelTensors, AFrozenTensorIsComparedByItsHashAndTakesNoPlace) {
  std::vector<ModelTensor> frozen = some_model(), other = some_model();
  frozen.push_back({"base.weight", false, {1000, 1000}, 0, 7});
  EXPECT_NO_THROW(check_tensors(frozen, 52));
  EXPECT_EQ(difference(frozen, frozen), "");
  other.push_back({"base.weight", false, {1000, 1000}, 0, 8});
  EXPECT_EQ(difference(other, frozen),
            "tensor 4 of 4, frozen 'base.weight' [1000, 1000] here, is another in the swarm (the 3 before it agree)");
}

TEST(ModelTensors, StateBehindAllParamsIsFound) {
  std::vector<ModelTensor> model = some_model();
  EXPECT_EQ(state_from(model), 48u);
  model.push_back({"norm.running_var", true, {4}, 52});
  model.push_back({"base.weight", false, {1000, 1000}, 0, 7});  // frozen
  EXPECT_EQ(state_from(model), 48u);
  model.push_back({"fc3.weight", false, {4}, 56});
  EXPECT_EQ(state_from(model), SIZE_MAX) << "a param stands behind it";
  EXPECT_EQ(state_from({{"fc1.weight", false, {4, 8}, 0}}), SIZE_MAX);
}

TEST(ModelTensors, AModelThatIsTheBeginningOfAnotherIsAnother) {
  std::vector<ModelTensor> two = some_model();
  two.pop_back();
  EXPECT_EQ(difference(two, some_model()),
            "the swarm's model has 3 tensors, this one 2, which agree with the first of those");
  EXPECT_EQ(difference(some_model(), two),
            "tensor 3 of 3, 'norm.running_mean' float32 [4], is not in the swarm's model (the 2 before it agree)");
}

TEST(ModelTensors, ThousandsOfTensorsStillFitIntoTheSettings) {
  std::vector<ModelTensor> many;
  for (uint64_t i = 0; i < 3 * kDigests; ++i) many.push_back({"t" + std::to_string(i), false, {1}, 16 * i});
  EXPECT_EQ(signature_of(many).size(), 8 * kDigests);
  std::vector<ModelTensor> other = many;
  other[4000].name = "another";
  EXPECT_EQ(
      difference(many, other),
      "tensor 4000 of 6144, 't3999' float32 [1] here, or one of the 2 behind it, is another in the swarm (the 3999 "
      "before it agree)");
}

TEST(ModelTensors, TensorsThatOverlapOrDoNotFitAreRefused) {
  EXPECT_NO_THROW(check_tensors(some_model(), 52));
  EXPECT_THROW(check_tensors(some_model(), 51), std::runtime_error);
  std::vector<ModelTensor> wrong = some_model();
  wrong[1].offset = 31;
  EXPECT_THROW(check_tensors(wrong, 64), std::runtime_error);
  wrong = some_model();
  wrong[2].shape = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_THROW(check_tensors(wrong, 64), std::runtime_error);
  wrong[2].shape = {-1};
  EXPECT_THROW(check_tensors(wrong, 64), std::runtime_error);
  EXPECT_THROW(check_tensors({}, 64), std::runtime_error);
}

}  // namespace
}  // namespace starling
