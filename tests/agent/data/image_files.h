// PNG and JPEG files, written by the libraries that read them.
#pragma once

#include <png.h>

#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>

#include "tests/agent/data/data_folder.h"

namespace starling {

inline constexpr uint32_t kImageWidth = 6, kImageHeight = 4;

// pixels: pixel after pixel.
inline ByteVector png_of(const ByteVector& pixels, uint32_t format, uint32_t width = kImageWidth,
                         uint32_t height = kImageHeight) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = format;
  png_alloc_size_t size = 0;
  EXPECT_TRUE(png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr));
  ByteVector png(size);
  EXPECT_TRUE(png_image_write_to_memory(&image, png.data(), &size, 0, pixels.data(), 0, nullptr));
  png.resize(size);
  return png;
}

inline ByteVector jpeg_of(ByteVector pixels, int channels, uint32_t width = kImageWidth, uint32_t height = kImageHeight,
                          bool progressive = false) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = width;
  jpeg.image_height = height;
  jpeg.input_components = channels;
  jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1;  // colors as sharp as brightness
  if (progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  for (uint32_t row = 0; row < height; ++row) {
    JSAMPROW from = pixels.data() + row * width * static_cast<uint32_t>(channels);
    jpeg_write_scanlines(&jpeg, &from, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  const ByteVector file(bytes, bytes + size);
  std::free(bytes);
  return file;
}

}  // namespace starling
