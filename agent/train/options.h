// What is trained and by which optimizer: the swarm's settings of the training side.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/data/options.h"

namespace starling {

struct ModelConfig {
  std::string kind = "cnn";  // attached | cnn | lstm | mlp | quadratic | vgg
  std::vector<int64_t> input = SampleSpec().input;
  int64_t classes = SampleSpec().classes;
  std::vector<int64_t> hidden = {128};  // widths: mlp; lstm: its layers; vgg: behind the convolutions
  int64_t channels = 8;                 // cnn, vgg: of the first convolution; twice as many behind each pool
  uint64_t dimension = 1000;            // quadratic: number of params
  double noise = 0;                     // quadratic: standard deviation of each gradient's elements
  uint64_t params = 0;                  // attached: elements, padding included; 0: no loop has brought its model yet
  std::string signature;                // attached: 8 hexadecimal digits a tensor, of its name, kind and shape

  SampleSpec samples() const { return {input, classes}; }
};

enum class Schedule { kConstant, kCosine, kStep };

struct OptimizerConfig {
  std::string kind = "sgd";  // sgd | adamw
  double learning_rate = 0.05;
  double momentum = 0.9;  // sgd
  bool nesterov = false;  // sgd
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // adamw

  // The learning rate follows the swarm's clock, so that a late joiner has the rate of all.
  Schedule schedule = Schedule::kConstant;  // cosine: down to 0 at stop_after; step: times `decay` every decay_every
  uint64_t warmup = 0;                      // steps of the swarm's clock from 0 to the full rate
  uint64_t decay_every = 0;                 // step: steps of the swarm's clock
  double decay = 0.1;                       // step
};

// A layer that a quadratic pretends to compute the gradient of.
struct PretendedLayer {
  uint64_t params = 0;
  double backward_s = 0;  // from the end of the layer behind it
};

// All that a trainer is made from, but its data.
struct TrainerOptions {
  ModelConfig model;
  OptimizerConfig optimizer;
  uint64_t swarm_rng_seed = 1;  // of the genesis, and of the order of samples
  bool draw_later = false;      // a network's params are not the genesis before Trainer::draw_genesis()
  uint32_t shard = 0;           // the order of samples differs by shard
  uint32_t batch = 64;          // samples of one step
  std::string device = "auto";  // auto | cpu | cuda
  uint32_t threads = 0;         // on the CPU; 0: as many as are fastest, found by trial
  double compute_ms = 0;        // pretend one step takes this long, of a network at least; 0: what it computes, of
                                // a quadratic what the layers take
  double forward_s = 0;         // quadratic, with layers: of a step, before backward
  std::vector<PretendedLayer> layers;  // quadratic: in the order of backward; empty: all is final at once
};

}  // namespace starling
