// Times of all-reduce in buckets beside backward, worked by hand.
#include "agent/simulate/averaged_baselines.h"

#include <gtest/gtest.h>

namespace starling {
namespace {

// Two nodes: an all-reduce takes 2 latencies, and half of the bytes twice.
constexpr SimLink kLink{.latency_s = 0.01, .bytes_per_s = 1e6};
constexpr size_t kNodes = 2;

TEST(Buckets, OneGradientBeginsWhenBackwardHasEnded) {
  EXPECT_NEAR(bucketed_seconds({{250'000, 0.5}}, kNodes, kLink), 0.5 + 0.02 + 1.0, 1e-12);
  EXPECT_NEAR(bucketed_seconds({{250'000, 0.5}}, 1, kLink), 0.5, 1e-12);
}

// 400 kB after .3 s, 200 kB after another .1 s. Apart: .3 + .42, then .22. In one bucket: .4 + .62. Apart wins, and
// 100 kB is the only limit that parts them.
TEST(Buckets, TheFirstIsSentWhileBackwardGoesOn) {
  EXPECT_NEAR(bucketed_seconds({{100'000, 0.3}, {50'000, 0.1}}, kNodes, kLink), 0.3 + 0.42 + 0.22, 1e-12);
}

// Without time to hide a message in, a second one only costs its latencies: one bucket is best.
TEST(Buckets, LargeOnesSaveLatencies) {
  EXPECT_NEAR(bucketed_seconds({{100'000, 0}, {50'000, 0}}, kNodes, kLink), 0.02 + 0.6, 1e-12);
}

// The third waits for its gradient, not for the link: 40 kB and 80 kB fill a bucket of 100 kB at .2 s, which is done at
// .2 + .14; the last 100 kB are there at 1 s.
TEST(Buckets, OneWaitsForItsGradientOrForTheOneBefore) {
  EXPECT_NEAR(bucketed_seconds({{10'000, 0.1}, {20'000, 0.1}, {25'000, 0.8}}, kNodes, kLink), 1 + 0.12, 1e-12);
}

TEST(Buckets, GradientsComeFromTheLastLayerToTheFirst) {
  ModelConfig model;
  model.kind = "mlp";
  model.input = {1, 2, 2};
  model.hidden = {5};
  model.classes = 3;
  const auto gradients = ready_gradients(model, 4.3);  // 20 + 5 + 15 + 3 elements
  ASSERT_EQ(gradients.size(), 4u);
  const uint64_t expected[] = {3, 15, 5, 20};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(gradients[i].elements, expected[i]);
    EXPECT_NEAR(gradients[i].backward_s, 0.1 * static_cast<double>(expected[i]), 1e-12);
  }
  model.kind = "quadratic";
  model.dimension = 77;
  ASSERT_EQ(ready_gradients(model, 1).size(), 1u);
  EXPECT_EQ(ready_gradients(model, 1)[0].elements, 77u);
}

}  // namespace
}  // namespace starling
