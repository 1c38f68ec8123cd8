#include <cstdio>  // jpeglib.h needs it

#include <jpeglib.h>

#include <jerror.h>

#include <csetjmp>
#include <stdexcept>

#include "agent/data/image.h"
#include "kernels/check.h"

namespace starling {
namespace {

// What libjpeg calls instead of exit() and printing.
struct Errors {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr jpeg) {
  auto* errors = reinterpret_cast<Errors*>(jpeg->err);
  jpeg->err->format_message(jpeg, errors->message);
  std::longjmp(errors->back, 1);
}

// libjpeg would go on with gray where a file ends early.
void judge_message(j_common_ptr jpeg, int level) {
  const int code = jpeg->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE)) leave(jpeg);
}

// A small file may have scans for days.
void count_scans(j_common_ptr jpeg) {
  constexpr int kScansMax = 100;  // of a photograph about 10
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kScansMax) return;
  auto* errors = reinterpret_cast<Errors*>(jpeg->err);
  std::snprintf(errors->message, sizeof errors->message, "more than %d scans", kScansMax);
  std::longjmp(errors->back, 1);
}

class JpegImage {
 public:
  explicit JpegImage(std::span<const uint8_t> file) {
    jpeg_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = leave;
    errors_.base.emit_message = judge_message;
    run([&] {
      jpeg_create_decompress(&jpeg_);
      scans_.progress_monitor = count_scans;
      jpeg_.progress = &scans_;
      jpeg_mem_src(&jpeg_, file.data(), file.size());
      jpeg_read_header(&jpeg_, TRUE);
    });
  }
  ~JpegImage() { jpeg_destroy_decompress(&jpeg_); }

  ImageSize size() const { return {jpeg_.image_width, jpeg_.image_height, jpeg_.num_components > 1}; }

  void decode(size_t channels, std::span<uint8_t> pixels) {
    const size_t row = channels * jpeg_.image_width;
    STARLING_CHECK(pixels.size() == row * jpeg_.image_height);
    run([&] {
      jpeg_.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
      jpeg_start_decompress(&jpeg_);
      while (jpeg_.output_scanline < jpeg_.output_height) {
        JSAMPROW to = pixels.data() + jpeg_.output_scanline * row;
        jpeg_read_scanlines(&jpeg_, &to, 1);
      }
    });
  }

 private:
  // `calls` holds nothing that a jump over it would leak.
  template <typename Calls>
  void run(const Calls& calls) {
    if (setjmp(errors_.back) == 0) return calls();
    jpeg_destroy_decompress(&jpeg_);  // a constructor that throws has no destructor
    throw std::runtime_error(std::string("libjpeg: ") + errors_.message);
  }

  Errors errors_{};
  jpeg_progress_mgr scans_{};
  jpeg_decompress_struct jpeg_{};
};

}  // namespace

ImageSize jpeg_size(std::span<const uint8_t> file) { return JpegImage(file).size(); }

void decode_jpeg(std::span<const uint8_t> file, size_t channels, std::span<uint8_t> pixels) {
  JpegImage(file).decode(channels, pixels);
}

}  // namespace starling
