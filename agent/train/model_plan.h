// What a built-in network is made of: which tensors, how large, where each starts in the flat params, and the
// first values. Needs no LibTorch, so every program can compute a genesis hash or a layout.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "agent/train/options.h"
#include "compression/layout.h"

namespace starling {

inline constexpr size_t kTensorAlignElements = 16;  // each tensor starts on 64 bytes

struct ParamSlot {
  std::string name;  // "conv1.weight": as PyTorch's modules name it in a state dict
  std::vector<int64_t> shape;
  size_t offset = 0;      // first element in the flat params
  size_t count = 0;       // elements, without padding
  double init_bound = 0;  // drawn uniformly from [-init_bound, init_bound)
};

struct ModelPlan {
  std::vector<ParamSlot> slots;  // in the order of offsets; what lies between two is padding and stays zero
  size_t param_count = 0;        // padding included: the same on every machine
};

// kind cnn:  conv 5x5 -> max pool -> relu -> conv 5x5 (twice as many channels) -> max pool -> relu -> linear;
//            no padding, so height and width are at least 14
// kind mlp:  linear -> relu, for each hidden width, -> linear
// kind vgg:  the first three blocks of VGG's net A: conv 3x3 with padding -> max pool -> relu, twice; two convs, a relu
//            between them -> max pool -> relu; each block has twice the channels of the one before; then as mlp. Height
//            and width are at least 8
// kind lstm: each byte of a sample [1, 1, length] -> embedding as wide as the first layer -> an LSTM layer for each
//            hidden width -> linear: scores of the byte that follows
// Throws std::runtime_error: another kind, or sizes that make no network.
ModelPlan plan_model(const ModelConfig& model);

// Of images: a network takes (byte / 255 - mean) / deviation of each pixel. That has mean 0 and deviation 1 on
// handwritten digits, or, in three channels, on photographs; near enough on others. The same on every machine,
// whatever data it holds.
struct PixelRange { double mean, deviation; };
PixelRange pixel_range(int64_t channels);

// A run of the params that is a matrix, one row after the other.
struct Matrix { size_t offset = 0, rows = 0, columns = 0; };

// The weights of a network, with a row for each output; a convolution's kernel is one of them. Throws as plan_model().
std::vector<Matrix> model_matrices(const ModelConfig& model);

// The genesis params, written over `params`. Uses only exactly rounded arithmetic: the same bytes on every machine.
// REQUIRES: params.size() == plan.param_count.
void draw_genesis(const ModelPlan& plan, uint64_t swarm_rng_seed, std::span<float> params);

}  // namespace starling
