// Layer-wise top-k: what is sent of each layer, what error feedback keeps, what it takes in bytes and time.
#include "agent/simulate/layer_top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "gossip/rng.h"

namespace starling {
namespace {

using Gradients = std::vector<std::vector<float>>;

constexpr size_t kElements = 120, kWorkers = 3;
const std::vector<GradientLayer> kLayers = {{0, 60}, {60, 7}, {70, 40}};  // gaps, as of padding

Gradients draw_gradients(Rng& rng) {
  Gradients gradients(kWorkers, std::vector<float>(kElements));
  for (auto& gradient : gradients) {
    for (const auto& [offset, count] : kLayers) {
      const double size = std::exp(4 * rng.uniform());  // layers differ in how large they are
      for (size_t i = 0; i < count; ++i) gradient[offset + i] = static_cast<float>(size * (2 * rng.uniform() - 1));
    }
  }
  return gradients;
}

TEST(LayerTopK, AllOfEachLayerIsTheMean) {
  Rng rng(1);
  LayerTopK top(kLayers, kElements, kWorkers, 1);
  for (int step = 0; step < 3; ++step) {
    const Gradients gradients = draw_gradients(rng);
    const std::vector<float> update = top.reduce(gradients);
    for (size_t i = 0; i < kElements; ++i) {
      EXPECT_NEAR(update[i], (gradients[0][i] + gradients[1][i] + gradients[2][i]) / 3, 1e-5f) << i;
    }
  }
}

TEST(LayerTopK, SendsTheLargestOfEachLayerAndKeepsTheRest) {
  Rng rng(2);
  const double density = 0.1;
  const std::vector<size_t> kept = {6, 1, 4};
  LayerTopK top(kLayers, kElements, kWorkers, density);
  std::vector<double> all(kElements), sent(kElements);
  for (int step = 0; step < 50; ++step) {
    const Gradients gradients = draw_gradients(rng);
    std::vector<std::vector<float>> waiting;
    for (size_t w = 0; w < kWorkers; ++w) {
      waiting.push_back(top.error(w));
      for (size_t i = 0; i < kElements; ++i) {
        waiting[w][i] += gradients[w][i];
        all[i] += gradients[w][i];
      }
    }
    const std::vector<float> update = top.reduce(gradients);
    for (size_t i = 0; i < kElements; ++i) sent[i] += static_cast<double>(kWorkers) * update[i];
    for (size_t w = 0; w < kWorkers; ++w) {
      for (size_t layer = 0; layer < kLayers.size(); ++layer) {
        size_t gone = 0;
        float least_gone = std::numeric_limits<float>::infinity(), most_left = 0;
        for (size_t i = kLayers[layer].offset; i < kLayers[layer].offset + kLayers[layer].count; ++i) {
          const float before = std::fabs(waiting[w][i]), left = std::fabs(top.error(w)[i]);
          if (left == 0 && before > 0) {
            ++gone;
            least_gone = std::min(least_gone, before);
          } else {
            EXPECT_EQ(top.error(w)[i], waiting[w][i]);
            most_left = std::max(most_left, before);
          }
        }
        EXPECT_EQ(gone, kept[layer]) << layer;
        EXPECT_GE(least_gone, most_left) << layer;
      }
    }
  }
  for (size_t i = 0; i < kElements; ++i) {
    const double left = top.error(0)[i] + top.error(1)[i] + top.error(2)[i];
    EXPECT_NEAR(sent[i] + left, all[i], 1e-3) << i;
  }
  EXPECT_EQ(top.layer_bytes(1), 8);
  EXPECT_EQ(top.bytes(), 8 * (6 + 1 + 4));
}

// Three members, 1,000 bytes a second: a part goes to two. Backward has a layer after 1 s, the other 3 s later.
TEST(LayerTopK, LayersAreSentOneAfterTheOtherWhileBackwardGoesOn) {
  const SimLink link{.latency_s = 0.5, .bytes_per_s = 1000};
  const std::vector<ReadyGradient> gradients = {{10, 1}, {10, 3}};
  EXPECT_NEAR(layer_top_k_seconds(gradients, {500, 1000}, 3, link), 4 + 2 + 0.5, 1e-9);
  EXPECT_NEAR(layer_top_k_seconds(gradients, {2000, 1000}, 3, link), 1 + 4 + 2 + 0.5, 1e-9);  // the first goes on
  EXPECT_NEAR(layer_top_k_seconds(gradients, {2000, 1000}, 1, link), 4, 1e-9) << "nobody to send to";
}

}  // namespace
}  // namespace starling
