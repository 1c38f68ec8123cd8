// Folders of data for tests: written anew for each, and removed with it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "agent/data/dataset.h"
#include "gossip/rng.h"
#include "kernels/check.h"

namespace starling {

using ByteVector = std::vector<uint8_t>;

class DataFolder {
 public:
  DataFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "starling_dataset_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~DataFolder() { std::filesystem::remove_all(path_); }

  void write(const std::string& name, const ByteVector& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream file(path_ / name, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::string path(const std::string& name = "") const { return name.empty() ? path_ : path_ / name; }

  SampleSpec model;

 private:
  std::filesystem::path path_;
};

// What `load` says when it refuses; empty if it does not.
template <typename Load>
std::string refusal_of(const Load& load) {
  try {
    load();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

inline void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\nin: " << text;
}

inline ByteVector bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

inline ByteVector random_bytes(size_t count, uint64_t rng_seed) {
  ByteVector bytes(count);
  Rng rng(rng_seed);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.next_u64());
  return bytes;
}

// window_bits: 16 + MAX_WBITS of gzip, -MAX_WBITS of a member of a zip archive.
inline ByteVector packed(const ByteVector& bytes, int window_bits = 16 + MAX_WBITS) {
  z_stream zlib{};
  STARLING_CHECK(deflateInit2(&zlib, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  ByteVector out(deflateBound(&zlib, bytes.size()) + 32);
  zlib.next_in = const_cast<uint8_t*>(bytes.data());
  zlib.avail_in = static_cast<uInt>(bytes.size());
  zlib.next_out = out.data();
  zlib.avail_out = static_cast<uInt>(out.size());
  STARLING_CHECK(deflate(&zlib, Z_FINISH) == Z_STREAM_END);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

inline ByteVector idx_header(const std::vector<uint32_t>& sizes) {
  ByteVector bytes = {0, 0, 8, static_cast<uint8_t>(sizes.size())};
  for (const uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(size >> shift));
  }
  return bytes;
}

inline ByteVector joined(ByteVector head, const ByteVector& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

inline ByteVector idx_images(uint32_t count, uint32_t height, uint32_t width) {
  ByteVector bytes = idx_header({count, height, width});
  for (uint32_t i = 0; i < count * height * width; ++i) bytes.push_back(static_cast<uint8_t>(i));
  return bytes;
}

inline ByteVector idx_labels(const ByteVector& values) {
  return joined(idx_header({static_cast<uint32_t>(values.size())}), values);
}

// Red pixels are ten times the label, green ones 1 more, blue ones 2; the last of all is 255.
inline ByteVector cifar_records(const ByteVector& labels) {
  ByteVector bytes;
  for (const uint8_t label : labels) {
    bytes.push_back(label);
    for (int channel = 0; channel < 3; ++channel)
      bytes.insert(bytes.end(), 1024, static_cast<uint8_t>(10 * label + channel));
    bytes.back() = 255;
  }
  return bytes;
}

}  // namespace starling
