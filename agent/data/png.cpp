#include <png.h>

#include <stdexcept>

#include "agent/data/image.h"
#include "kernels/check.h"

namespace starling {
namespace {

// libpng's simple interface: it returns after an error, and frees what it holds.
class PngImage {
 public:
  explicit PngImage(std::span<const uint8_t> file) {
    image_.version = PNG_IMAGE_VERSION;
    if (png_image_begin_read_from_memory(&image_, file.data(), file.size()) == 0) refuse();
  }
  ~PngImage() { png_image_free(&image_); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;

  ImageSize size() const { return {image_.width, image_.height, (image_.format & PNG_FORMAT_FLAG_COLOR) != 0}; }

  void decode(size_t channels, std::span<uint8_t> pixels) {
    const png_color black{0, 0, 0};
    image_.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    STARLING_CHECK(pixels.size() == PNG_IMAGE_SIZE(image_));
    if (png_image_finish_read(&image_, &black, pixels.data(), 0, nullptr) == 0) refuse();
  }

 private:
  [[noreturn]] void refuse() const { throw std::runtime_error(std::string("libpng: ") + image_.message); }

  png_image image_{};
};

}  // namespace

ImageSize png_size(std::span<const uint8_t> file) { return PngImage(file).size(); }

void decode_png(std::span<const uint8_t> file, size_t channels, std::span<uint8_t> pixels) {
  PngImage(file).decode(channels, pixels);
}

}  // namespace starling
