#include "agent/attach/model_tensors.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gossip/net/hash.h"

namespace starling {
namespace {

constexpr size_t kDigestBytes = 4, kDigestDigits = 2 * kDigestBytes;

size_t tensors_in_a_digest(size_t tensors) { return std::max<size_t>(1, (tensors + kDigests - 1) / kDigests); }

std::string kind_of(const ModelTensor& tensor) {
  return tensor.frozen ? fmt::format("{:016x}", *tensor.frozen) : tensor.averaged ? "state" : "param";
}

}  // namespace

uint64_t elements_of(const ModelTensor& tensor) {
  uint64_t elements = 1;
  for (const int64_t side : tensor.shape) {
    if (side < 0 || __builtin_mul_overflow(elements, static_cast<uint64_t>(side), &elements)) {
      throw std::runtime_error(describe_tensor(tensor) + " must have sides of 0 or more, and fewer than 2^64 elements");
    }
  }
  return elements;
}

std::string describe_tensor(const ModelTensor& tensor) {
  return fmt::format("{}'{}'{} [{}]", tensor.frozen ? "frozen " : "", tensor.name, tensor.frozen ? "" : " float32",
                     fmt::join(tensor.shape, ", "));
}

void check_tensors(const std::vector<ModelTensor>& tensors, uint64_t count) {
  uint64_t end = 0;
  for (const ModelTensor& tensor : tensors) {
    if (tensor.frozen) continue;
    const uint64_t elements = elements_of(tensor);
    if (tensor.offset < end || tensor.offset > count || elements > count - tensor.offset) {
      throw std::runtime_error(
          fmt::format("{} must lie behind the tensor before it and within {} params", describe_tensor(tensor), count));
    }
    end = tensor.offset + elements;
  }
  if (end == 0) throw std::runtime_error("the model has no params to share; name a tensor with elements");
}

size_t state_from(const std::vector<ModelTensor>& tensors) {
  size_t from = SIZE_MAX;
  for (const ModelTensor& tensor : tensors) {
    if (tensor.frozen) continue;
    from = !tensor.averaged ? SIZE_MAX : std::min(from, static_cast<size_t>(tensor.offset));
  }
  return from == 0 ? SIZE_MAX : from;
}

std::string signature_of(const std::vector<ModelTensor>& tensors) {
  const size_t step = tensors_in_a_digest(tensors.size());
  std::string signature;
  for (size_t i = 0; i < tensors.size(); i += step) {
    std::string text;
    for (size_t k = i; k < std::min(tensors.size(), i + step); ++k) {
      text += kind_of(tensors[k]) + " " + describe_tensor(tensors[k]) + "\n";
    }
    const auto digest = blake2b_256(std::as_bytes(std::span(text)));
    for (size_t byte = 0; byte < kDigestBytes; ++byte) signature += fmt::format("{:02x}", digest[byte]);
  }
  return signature;
}

std::string describe_model_difference(const std::vector<ModelTensor>& own, const ModelConfig& theirs) {
  const std::string signature = signature_of(own);
  if (signature == theirs.signature) return "";
  const size_t step = tensors_in_a_digest(own.size());
  const size_t here = signature.size() / kDigestDigits, there = theirs.signature.size() / kDigestDigits;
  size_t same = 0;
  while (same < std::min(here, there) && signature.compare(same * kDigestDigits, kDigestDigits, theirs.signature,
                                                           same * kDigestDigits, kDigestDigits) == 0) {
    ++same;
  }
  const std::string before = same == 0 ? "" : fmt::format(" (the {} before it agree)", same * step);
  if (same == here) {
    return fmt::format("the swarm's model has {} tensors, this one {}, which agree with the first of those",
                       there * step, own.size());
  }
  const ModelTensor& first = own[same * step];
  if (same == there) {
    return fmt::format("tensor {} of {}, {}, is not in the swarm's model{}", same * step + 1, own.size(),
                       describe_tensor(first), before);
  }
  const std::string one_of = step == 1 ? "," : fmt::format(", or one of the {} behind it,", step - 1);
  return fmt::format("tensor {} of {}, {} here{} is another in the swarm{}", same * step + 1, own.size(),
                     describe_tensor(first), one_of, before);
}

}  // namespace starling
