#include "agent/train/model_layers.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace starling {
namespace {

TEST(ModelLayers, CountsWhatAConvolutionComputes) {
  const auto cnn = model_layers({.kind = "cnn", .input = {3, 32, 20}, .classes = 7, .channels = 4});
  ASSERT_EQ(cnn.size(), 3u);
  EXPECT_EQ(cnn[0].name, "conv1");
  EXPECT_EQ(cnn[0].params, 4u * 3 * 25 + 4);
  EXPECT_EQ(cnn[0].flops, (2.0 * 4 * 3 * 25 + 4) * 28 * 16);  // 32 x 20 without padding
  EXPECT_EQ(cnn[1].flops, (2.0 * 8 * 4 * 25 + 8) * 10 * 4);   // 14 x 8 after the pool
  EXPECT_EQ(cnn[2].params, 7u * 80 + 7);
  EXPECT_EQ(cnn[2].flops, 2.0 * 7 * 80 + 7);
}

TEST(ModelLayers, CountsPaddedConvolutionsAndRepeatedLayers) {
  const auto vgg = model_layers({.kind = "vgg", .input = {3, 32, 20}, .classes = 7, .hidden = {}, .channels = 4});
  ASSERT_EQ(vgg.size(), 5u);
  EXPECT_EQ(vgg[0].flops, (2.0 * 4 * 3 * 9 + 4) * 32 * 20);
  EXPECT_EQ(vgg[1].flops, (2.0 * 8 * 4 * 9 + 8) * 16 * 10);
  EXPECT_EQ(vgg[3].flops, (2.0 * 16 * 16 * 9 + 16) * 8 * 5);
  EXPECT_EQ(vgg[4].flops, 2.0 * 7 * 16 * 4 * 2 + 7);
  const auto lstm = model_layers({.kind = "lstm", .input = {1, 1, 16}, .classes = 50, .hidden = {30, 20}});
  ASSERT_EQ(lstm.size(), 4u);
  EXPECT_EQ(lstm[0].params, 1500u);
  EXPECT_EQ(lstm[0].flops, 0) << "a look-up";
  EXPECT_EQ(lstm[2].name, "lstm2");
  EXPECT_EQ(lstm[2].params, 80u * (30 + 20 + 2));
  EXPECT_EQ(lstm[2].flops, 80 * (2.0 * (30 + 20) + 2) * 16);
  EXPECT_EQ(lstm[3].flops, (2.0 * 50 * 20 + 50) * 16);
}

TEST(ModelLayers, KnowsTheOtherKinds) {
  const auto mlp = model_layers({.kind = "mlp", .input = {1, 2, 5}, .classes = 3, .hidden = {4}});
  ASSERT_EQ(mlp.size(), 2u);
  EXPECT_EQ(mlp[0].params, 44u);
  EXPECT_EQ(mlp[1].flops, 2.0 * 12 + 3);
  EXPECT_EQ(model_layers({.kind = "quadratic", .dimension = 50})[0].params, 50u);
  EXPECT_THROW(model_layers({.kind = "mlp", .classes = 1}), std::runtime_error);
  try {
    model_layers({.kind = "unheard"});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("--layers FILE"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace starling
