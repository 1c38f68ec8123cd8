// Payloads larger than a frame travel in parts of kUpdatePartBytes, the last one shorter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "gossip/limits.h"
#include "gossip/net/transport.h"

namespace starling {

inline uint32_t parts_of(size_t bytes) {
  return static_cast<uint32_t>(std::max<size_t>(1, (bytes + kUpdatePartBytes - 1) / kUpdatePartBytes));
}

inline SharedBytes part_of(const SharedBytes& payload, uint32_t part) {
  if (payload.size <= kUpdatePartBytes) return payload;
  const size_t begin = part * kUpdatePartBytes;
  return {payload.owner, payload.data + begin, std::min(kUpdatePartBytes, payload.size - begin)};
}

// Puts the parts of one payload together.
class PartBuffer {
 public:
  // `bytes_max`: of the whole payload.
  static bool fits(uint32_t part, uint32_t parts, size_t part_bytes, size_t bytes_max) {
    if (part >= parts || part_bytes == 0 || part * kUpdatePartBytes + part_bytes > bytes_max) return false;
    return part + 1 == parts ? part_bytes <= kUpdatePartBytes : part_bytes == kUpdatePartBytes;
  }

  // REQUIRES: it fits. Parts that are here, or of another count, are ignored.
  void add(uint32_t part, uint32_t parts, const SharedBytes& bytes) {
    if (parts_.empty()) parts_.resize(parts);
    if (parts_.size() != parts || !parts_[part].empty()) return;
    parts_[part] = bytes;
    if (++here_ == parts) whole_ = join();
  }
  bool complete() const { return whole_.has_value(); }
  const SharedBytes& whole() const { return *whole_; }   // REQUIRES: complete

 private:
  SharedBytes join() {
    if (parts_.size() == 1) return std::exchange(parts_[0], {});
    std::vector<std::byte> bytes;
    for (SharedBytes& part : parts_) {
      bytes.insert(bytes.end(), part.data, part.data + part.size);
      part = {};
    }
    return SharedBytes::take(std::move(bytes));
  }

  std::vector<SharedBytes> parts_;
  size_t here_ = 0;
  std::optional<SharedBytes> whole_;
};

}  // namespace starling
