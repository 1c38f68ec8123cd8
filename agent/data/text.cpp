// Text: train.txt and test.txt, as bytes. A sample is a run of them, and its label the byte that follows; runs do not
// overlap, so that an epoch visits each byte once.
#include <algorithm>
#include <filesystem>

#include "agent/data/dataset.h"
#include "agent/data/file.h"

namespace starling {
namespace {

constexpr uint64_t kTextMax = uint64_t{1} << 32;   // bytes; samples are numbered in 32 bits

std::string text_path(const std::string& folder, DataPart part) {
  return std::filesystem::path(folder) / (part == DataPart::kTest ? "test.txt" : "train.txt");
}

std::vector<uint8_t> read_text(const std::string& path, const SampleSpec& model) {
  uint64_t size_bytes = 0;
  std::ifstream file = open_data_file(path, &size_bytes);
  const uint64_t least = static_cast<uint64_t>(model.input[2]) + 1;
  if (size_bytes > kTextMax) {
    refuse_file(path, std::to_string(size_bytes) + " bytes, more than 2^32", "cut it into shards, one an agent");
  }
  if (size_bytes < least) {
    refuse_file(path, std::to_string(size_bytes) + " bytes, and one sample needs " + std::to_string(least),
                "use a longer text, or a smaller swarm.model.input");
  }
  std::vector<uint8_t> bytes(size_bytes);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size_bytes))) {
    refuse_file(path, "reading failed", "check the disk");
  }
  return bytes;
}

}  // namespace

bool has_text(const std::string& folder, DataPart part) {
  std::error_code error;
  return std::filesystem::exists(text_path(folder, part), error);
}

Dataset load_text(const std::string& folder, DataPart part, const SampleSpec& model) {
  const std::string path = text_path(folder, part);
  if (model.input.size() != 3 || model.input[0] != 1 || model.input[1] != 1) {
    refuse_file(path, "text is a run of bytes but the model takes " + print_shape(model.input),
                "set swarm.model.kind: lstm and swarm.model.input: [1, 1, LENGTH], or use other data");
  }
  const std::vector<uint8_t> bytes = read_text(path, model);
  const auto length = static_cast<size_t>(model.input[2]);
  const auto wrong = std::find_if(bytes.begin(), bytes.end(), [&](uint8_t byte) { return byte >= model.classes; });
  if (wrong != bytes.end()) {
    refuse_file(path, "byte " + std::to_string(wrong - bytes.begin()) + " is " + std::to_string(*wrong) +
                          ", outside the model's " + std::to_string(model.classes) + " classes",
                "set swarm.model.classes: 256 (128 for plain ASCII)");
  }
  Dataset data{.shape = model.input};
  for (size_t end = length; end < bytes.size(); end += length) {
    const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(end);
    data.pixels.insert(data.pixels.end(), at - static_cast<std::ptrdiff_t>(length), at);
    data.labels.push_back(*at);
  }
  return data;
}

}  // namespace starling
