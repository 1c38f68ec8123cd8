#include "agent/data/image.h"

#include <algorithm>
#include <stdexcept>

#include "agent/data/file.h"
#include "agent/data/source.h"

namespace starling {
namespace {

constexpr uint64_t kFileMax = 64 << 20;
constexpr uint32_t kSideMax = 4096;  // as swarm.model.input

class ImageFile {
 public:
  explicit ImageFile(const std::string& path) : path_(path) {
    uint64_t size_bytes = 0;
    std::ifstream file = open_data_file(path, &size_bytes);
    if (size_bytes > kFileMax) refuse(std::to_string(size_bytes) + " bytes, more than 64 MiB", "use smaller images");
    bytes_.resize(size_bytes);
    if (!file.read(reinterpret_cast<char*>(bytes_.data()), static_cast<std::streamsize>(size_bytes))) {
      refuse("reading failed", "check the disk");
    }
    is_png_ = starts_with({0x89, 'P', 'N', 'G'});
    if (!is_png_ && !starts_with({0xff, 0xd8})) refuse("neither PNG nor JPEG by its first bytes", "remove it");
    attempt([&] { size_ = is_png_ ? png_size(bytes_) : jpeg_size(bytes_); });
    if (std::max(size_.width, size_.height) > kSideMax || std::min(size_.width, size_.height) == 0) {
      refuse("claims " + print_size(size_) + " pixels, and at most 4096x4096 are read", "scale it down, or remove it");
    }
  }

  const ImageSize& size() const { return size_; }

  void decode(const std::vector<int64_t>& shape, std::vector<uint8_t>& planes) {
    if (size_.height != shape[1] || size_.width != shape[2]) {
      refuse(print_size(size_) + " pixels (width x height), but the images before it have " + std::to_string(shape[2]) +
                 "x" + std::to_string(shape[1]),
             "scale all images to one size");
    }
    const auto channels = static_cast<size_t>(shape[0]);
    const size_t pixels = size_t{size_.width} * size_.height;
    std::vector<uint8_t> mixed(pixels * channels);
    attempt([&] { is_png_ ? decode_png(bytes_, channels, mixed) : decode_jpeg(bytes_, channels, mixed); });
    planes.resize(mixed.size());
    split_channels(mixed.data(), pixels, channels, planes.data());
  }

 private:
  static std::string print_size(const ImageSize& size) {
    return std::to_string(size.width) + "x" + std::to_string(size.height);
  }

  bool starts_with(const std::vector<uint8_t>& magic) const {
    return bytes_.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes_.begin());
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& remedy) const {
    refuse_file(path_, what, remedy);
  }

  template <typename Calls>
  void attempt(const Calls& calls) const {
    try {
      calls();
    } catch (const std::runtime_error& error) {
      refuse(error.what(), "replace or remove it");
    }
  }

  const std::string path_;
  std::vector<uint8_t> bytes_;
  bool is_png_ = false;
  ImageSize size_;
};

}  // namespace

bool is_image_name(const std::string& name) {
  return has_ending(name, ".png") || has_ending(name, ".jpg") || has_ending(name, ".jpeg");
}

ImageSize read_image_size(const std::string& path) { return ImageFile(path).size(); }

void read_image(const std::string& path, const std::vector<int64_t>& shape, std::vector<uint8_t>& pixels) {
  ImageFile(path).decode(shape, pixels);
}

}  // namespace starling
