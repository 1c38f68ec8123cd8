// The tensors of a loop's model: how they lie in the flat params, and whether another model is the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/train/options.h"

namespace starling {

struct ModelTensor {
  std::string name;
  bool averaged = false;  // no param, but state such as a running mean
  std::vector<int64_t> shape;
  uint64_t offset = 0;               // of its first element; tensors lie in the order of offsets, padding between them
  std::optional<uint64_t> frozen{};  // not among the params: all members hold the same, of this hash
};

uint64_t elements_of(const ModelTensor& tensor);  // throws std::runtime_error: no such number can be
std::string describe_tensor(
    const ModelTensor& tensor);  // "'fc.weight' float32 [10, 128]", "frozen 'fc.weight' [10, 128]"

// Throws std::runtime_error, with the tensor's name: tensors overlap, or do not fit into `count` elements.
void check_tensors(const std::vector<ModelTensor>& tensors, uint64_t count);

// Where state such as running means begins that lies behind params; SIZE_MAX: there is none. In blocks with params,
// its size would be the unit of what a codec of few bits says of them.
size_t state_from(const std::vector<ModelTensor>& tensors);

// ModelConfig::signature. Above kDigests tensors a digest stands for several that follow each other.
inline constexpr size_t kDigests = 2048;
std::string signature_of(const std::vector<ModelTensor>& tensors);

// How the model of a swarm differs from these tensors, by the first one that does; empty: it does not.
std::string describe_model_difference(const std::vector<ModelTensor>& own, const ModelConfig& theirs);

}  // namespace starling
