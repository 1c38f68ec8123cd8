// One image from a file: PNG by libpng, JPEG by libjpeg. The sizes that a file claims are judged before memory is asked
// for, and the libraries' errors become exceptions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace starling {

struct ImageSize {
  uint32_t width = 0, height = 0;
  bool color = false;
  bool operator==(const ImageSize&) const = default;
};

bool is_image_name(const std::string& name);  // .png, .jpg, .jpeg

// Throws std::runtime_error that names the file: neither PNG nor JPEG, damaged, larger than 4096 pixels on a side.
ImageSize read_image_size(const std::string& path);

// Channel after channel, 1 or 3: gray becomes colored and colored gray. What is transparent lies on black. Throws as
// read_image_size(), and for another width or height.
void read_image(const std::string& path, const std::vector<int64_t>& shape, std::vector<uint8_t>& pixels);

// The formats. Pixel after pixel, each with so many channels; `pixels` has room for all. They throw std::runtime_error
// with the library's words.
ImageSize png_size(std::span<const uint8_t> file);
void decode_png(std::span<const uint8_t> file, size_t channels, std::span<uint8_t> pixels);
ImageSize jpeg_size(std::span<const uint8_t> file);
void decode_jpeg(std::span<const uint8_t> file, size_t channels, std::span<uint8_t> pixels);

}  // namespace starling
