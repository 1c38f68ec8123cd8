// A trained model as a file, also for other programs: safetensors, or .pt as torch.save writes it. Needs no LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace starling {

struct NamedTensor {
  std::string name;  // in a PyTorch state dict: "conv1.weight"
  std::vector<int64_t> shape;
  std::span<const float> values;  // row after row, as many as the shape says; borrowed
};

struct TensorFile {
  std::vector<NamedTensor> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;  // name, text; UTF-8
};

// Takes the bytes of a file in pieces, in their order.
using PutBytes = std::function<void(std::span<const std::byte> piece)>;

// u64 size of the header; the header, JSON padded with spaces to 8 bytes; the values (F32), tensor behind tensor.
void put_safetensors(const TensorFile& file, const PutBytes& put);

// A zip archive of stored entries, each with its content on 64 bytes:
//   archive/data.pkl         a pickled OrderedDict of tensors, with an attribute `metadata`, a dict of texts
//   archive/data/0, 1, ...   the values of each tensor
//   archive/byteorder, archive/version
// Throws std::runtime_error: more than 4 GiB.
void put_pt(const TensorFile& file, const PutBytes& put);

// The format that the suffix of `path` names: .safetensors or .pt; nullptr for any other.
using PutTensorFile = void (*)(const TensorFile& file, const PutBytes& put);
PutTensorFile tensor_format(const std::string& path);

// Replaces `path`, which is complete or as before even after a power cut; its mode follows from the umask. REQUIRES:
// tensor_format(path). Throws std::runtime_error with cause and remedy.
void write_tensor_file(const std::string& path, const TensorFile& file);

struct LoadedTensors {
  TensorFile file;
  std::shared_ptr<const std::vector<float>> values;  // that its tensors point into
};

// Reads what write_tensor_file() wrote, and safetensors of other programs if their tensors are F32. The file is
// foreign. Throws std::runtime_error with cause and remedy: not there, damaged, another digest than its values have.
LoadedTensors read_tensor_file(const std::string& path);

// The name of values_digest() among the metadata. Without it nothing tells a file with a wrong bit.
inline constexpr const char* kDigestKey = "blake2b";
std::string values_digest(const TensorFile& file);  // hex; of all values, tensor after tensor

std::string metadata_of(const TensorFile& file, std::string_view name);  // empty: there is none

}  // namespace starling
