// Layer-wise top-k SGD with error feedback (LAGS-SGD: Shi, Tang, Wang, Zhao, Chu 2019, arXiv:1911.08727). Each worker
// adds what it left out earlier to each layer's gradient, and sends the k largest elements as soon as backward has that
// layer. All apply the mean of what all sent:
//   e_w += g_w;  s_w = the k largest of e_w;  e_w -= s_w;  update = mean of s_w
#pragma once

#include <cstddef>
#include <vector>

#include "agent/simulate/averaged_baselines.h"

namespace starling {

// In the flat params.
struct GradientLayer { size_t offset = 0, count = 0; };

// The tensors of a built-in network, in the order of the params; a quadratic is one.
std::vector<GradientLayer> gradient_layers(const ModelConfig& model);

class LayerTopK {
 public:
  // Gradients have `elements` elements. Of each layer ceil(density * count) are sent; what lies in no layer is zero.
  // REQUIRES: layers with elements, apart from each other; a worker at least; density above 0, at most 1.
  LayerTopK(std::vector<GradientLayer> layers, size_t elements, size_t workers, double density);

  // One step. REQUIRES: a gradient of each worker, finite. Returns what all apply in place of the mean gradient.
  std::vector<float> reduce(const std::vector<std::vector<float>>& gradients);

  // What this worker has left out so far.
  const std::vector<float>& error(size_t worker) const { return errors_[worker]; }

  // Of one worker's part of a layer: values in fp32 and indices of 4 bytes.
  double layer_bytes(size_t layer) const { return 8.0 * static_cast<double>(kept_[layer]); }
  double bytes() const;  // of all layers

 private:
  std::vector<GradientLayer> layers_;
  std::vector<size_t> kept_;                // how many elements of each layer are sent
  std::vector<std::vector<float>> errors_;  // by worker
};

// Seconds from the begin of backward until all parts of all layers are everywhere. Each worker sends its part of a
// layer to each other one, one layer after the other; the links never wait for an answer, so the latency counts once.
// `gradients` are in the order of backward, `layers` holds the bytes of one worker's part of each.
double layer_top_k_seconds(const std::vector<ReadyGradient>& gradients, const std::vector<double>& layers,
                           size_t agents, const SimLink& link);

}  // namespace starling
