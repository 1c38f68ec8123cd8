// IDX, the format of the MNIST family: {0, 0, type 8 = unsigned byte, number of dimensions}, one big-endian
// u32 per dimension, then the bytes. No number in the file is used before it is compared with the file's size.
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "agent/data/dataset.h"
#include "agent/data/file.h"

namespace starling {
namespace {

struct IdxArray {
  std::vector<uint32_t> sizes;
  std::vector<uint8_t> bytes;
};

uint32_t read_big_endian(const uint8_t* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
}

std::string stem_of(DataPart part) { return part == DataPart::kTest ? "t10k" : "train"; }

IdxArray read_idx(const std::string& path, uint8_t dimensions_min, uint8_t dimensions_max) {
  uint64_t size_bytes = 0;
  std::ifstream file = open_data_file(path, &size_bytes);
  const std::string again = "fetch the file again";
  uint8_t header[4 + 4 * 4] = {};
  if (size_bytes < 4 || !file.read(reinterpret_cast<char*>(header), 4)) {
    refuse_file(path, "cut short: " + std::to_string(size_bytes) + " bytes, an IDX header has at least 8", again);
  }
  if (header[0] == 0x1f && header[1] == 0x8b) refuse_file(path, "compressed with gzip", "unpack it with gunzip");
  const uint8_t dimensions = header[3];
  if (header[0] != 0 || header[1] != 0 || header[2] != 8 || dimensions < dimensions_min ||
      dimensions > dimensions_max) {
    refuse_file(path, fmt::format("wrong magic number 0x{:08x}, expected 0x{:08x}", read_big_endian(header),
                                  0x800u + dimensions_min),
                "check that this is the IDX file its name says");
  }
  const uint64_t header_bytes = 4 + 4u * dimensions;
  if (size_bytes < header_bytes || !file.read(reinterpret_cast<char*>(header + 4), 4 * dimensions)) {
    refuse_file(path, "cut short: " + std::to_string(size_bytes) + " bytes, its header has " +
                          std::to_string(header_bytes), again);
  }
  IdxArray array;
  uint64_t body_bytes = 1;
  for (int i = 0; i < dimensions; ++i) {
    array.sizes.push_back(read_big_endian(header + 4 + 4 * i));
    if (__builtin_mul_overflow(body_bytes, uint64_t{array.sizes.back()}, &body_bytes)) {
      body_bytes = std::numeric_limits<uint64_t>::max() / 2;
      break;
    }
  }
  if (size_bytes - header_bytes != body_bytes) {
    const bool is_short = size_bytes - header_bytes < body_bytes;
    refuse_file(path, std::string(is_short ? "cut short" : "too long") + ": its header announces " +
                          std::to_string(body_bytes) + " bytes of data, the file holds " +
                          std::to_string(size_bytes - header_bytes), again);
  }
  array.bytes.resize(body_bytes);
  if (!file.read(reinterpret_cast<char*>(array.bytes.data()), static_cast<std::streamsize>(body_bytes))) {
    refuse_file(path, "reading failed", "check the disk");
  }
  return array;
}

}  // namespace

bool has_idx(const std::string& folder, DataPart part) {
  const std::string stem = stem_of(part);
  std::error_code error;
  return std::filesystem::exists(folder + "/" + stem + "-images-idx3-ubyte", error) ||
         std::filesystem::exists(folder + "/" + stem + "-labels-idx1-ubyte", error);
}

Dataset load_idx(const std::string& folder, DataPart part, const SampleSpec& model) {
  const std::string stem = stem_of(part);
  const std::filesystem::path dir(folder);
  const std::string image_path = dir / (stem + "-images-idx3-ubyte");
  const std::string label_path = dir / (stem + "-labels-idx1-ubyte");
  IdxArray images = read_idx(image_path, 3, 4);
  IdxArray labels = read_idx(label_path, 1, 1);

  Dataset data;
  if (images.sizes.size() == 3) data.shape.push_back(1);
  data.shape.insert(data.shape.end(), images.sizes.begin() + 1, images.sizes.end());
  if (data.shape != model.input) {
    refuse_file(image_path,
                "its images are " + print_shape(data.shape) + " but the model takes " +
                    print_shape(model.input),
                "set swarm.model.input to the size of the images, or use other data");
  }
  if (images.sizes[0] != labels.bytes.size()) {
    refuse_file(label_path,
                std::to_string(labels.bytes.size()) + " labels for the " + std::to_string(images.sizes[0]) +
                    " images of " + image_path,
                "fetch both files from the same place");
  }
  if (labels.bytes.empty()) refuse_file(image_path, "holds no samples", "use a file that does");
  for (size_t i = 0; i < labels.bytes.size(); ++i) {
    if (labels.bytes[i] < model.classes) continue;
    refuse_file(label_path, "label " + std::to_string(labels.bytes[i]) + " of sample " + std::to_string(i) +
                                " is outside the model's " + std::to_string(model.classes) + " classes",
                "raise swarm.model.classes or use other data");
  }
  data.pixels = std::move(images.bytes);
  data.labels = std::move(labels.bytes);
  return data;
}

}  // namespace starling
