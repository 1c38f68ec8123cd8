// The trained model that a swarm begins from.
#include "agent/state/genesis_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace starling {
namespace {

ModelConfig small_cnn() {
  ModelConfig model;
  model.kind = "cnn";
  model.input = {1, 16, 16};
  model.classes = 4;
  model.channels = 2;
  return model;
}

// A file of a model, with its first params.
struct ModelFileOf {
  explicit ModelFileOf(const ModelConfig& model) : plan(plan_model(model)), params(plan.param_count) {
    draw_genesis(plan, 5, params);
    for (const ParamSlot& slot : plan.slots) {
      file.tensors.push_back({slot.name, slot.shape, std::span(params).subspan(slot.offset, slot.count)});
    }
    file.metadata = {{"model", describe_network(model)}};
  }
  ModelPlan plan;
  std::vector<float> params;
  TensorFile file;
};

template <typename Call>
std::string refusal(const Call& call) {
  try {
    (void)call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(GenesisFile, EveryNetworkIsFoundAgain) {
  for (const char* kind : {"cnn", "mlp", "vgg", "lstm"}) {
    ModelConfig model = small_cnn();
    model.kind = kind;
    if (model.kind == "lstm") model.input = {1, 1, 9};
    if (model.kind != "cnn") model.hidden = {6, 5};
    ModelFileOf of(model);
    const ModelConfig found = network_of(of.file, "f");
    EXPECT_EQ(describe_network(found), describe_network(model));
    std::swap(of.file.tensors.front(), of.file.tensors.back());
    EXPECT_EQ(flat_params(of.file, plan_model(found), "f"), of.params) << kind << ": by name, in any order";
  }
}

// The file says how large its model is, and has nearly nothing of it.
TEST(GenesisFile, AFileWithoutItsTensorsIsRefusedBeforeMemoryIsAskedFor) {
  ModelConfig model = small_cnn();
  model.kind = "mlp";
  model.input = {1, 1, 1};
  model.hidden.assign(16, 65536);
  const std::vector<float> two(2);
  TensorFile file;
  file.tensors.push_back({"fc17.bias", {4}, two});
  EXPECT_NE(refusal([&] { return flat_params(file, plan_model(model), "f"); }).find("fc1.weight is missing"),
            std::string::npos);
}

TEST(GenesisFile, AnotherModelIsRefusedByTheTensorThatDiffers) {
  const ModelPlan plan = plan_model(small_cnn());
  ModelConfig wide = small_cnn();
  wide.channels = 3;
  const ModelFileOf other(wide);
  EXPECT_NE(
      refusal([&] { return flat_params(other.file, plan, "f"); }).find("conv1.weight is [3, 1, 5, 5], not [2, 1, 5"),
      std::string::npos);
  ModelFileOf of(small_cnn());
  of.file.tensors.pop_back();
  EXPECT_NE(refusal([&] { return flat_params(of.file, plan, "f"); }).find("fc.bias is missing"), std::string::npos);
  ModelFileOf more(small_cnn());
  more.file.tensors.push_back({"extra", {1}, std::span(more.params).first(1)});
  EXPECT_NE(refusal([&] { return flat_params(more.file, plan, "f"); }).find("extra is no part of it"),
            std::string::npos);
  ModelFileOf sick(small_cnn());
  sick.params[plan.slots[1].offset] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(refusal([&] { return flat_params(sick.file, plan, "f"); }).find("conv1.bias is not finite"),
            std::string::npos);
}

TEST(GenesisFile, MetadataThatNameNoNetworkAreRefused) {
  for (const char* text :
       {"", "cnn", "[]", R"({"kind":"quadratic","input":[1,2,3],"classes":4})", R"({"kind":"cnn"})", R"({"kind":7})",
        R"({"kind":"cnn","input":[1,16],"classes":4})", R"({"kind":"cnn","input":[1,16,16],"classes":-4})",
        R"({"kind":"cnn","input":[1,16,1e9],"classes":4})", R"({"kind":"cnn","input":[1,16,16],"classes":[4,5]})",
        R"({"kind":"mlp","input":[1,16,16],"classes":4,"hidden":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]})"}) {
    const std::string said = refusal([&] { return network_of({{}, {{"model", text}}}, "f"); });
    EXPECT_NE(said.find("starling export"), std::string::npos) << text << ": " << said;
  }
}

}  // namespace
}  // namespace starling
