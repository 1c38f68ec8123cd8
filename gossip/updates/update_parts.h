// Payloads larger than a frame travel in parts of kUpdatePartBytes, the last one shorter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "gossip/limits.h"
#include "gossip/net/hash.h"
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

// Of a payload that is one part: its frames need no other pass over it, and it is in the cache now.
inline SharedBytes with_checksum(SharedBytes payload) {
  if (payload.size <= kUpdatePartBytes) payload.checksum = xxh3_64(payload.span());
  return payload;
}

// What was written of a buffer. One that stayed mostly empty is let go: logs keep payloads for several rounds.
inline SharedBytes written_of(const UnsetBytes& bytes, size_t size) {
  return size < bytes.span().size() / 2 ? SharedBytes::copy_of(bytes.span().first(size)) : bytes.first(size);
}

// Puts the parts of one payload together, each as it comes, so that what it came in is free again.
class PartBuffer {
 public:
  // `bytes_max`: of the whole payload.
  static bool fits(uint32_t part, uint32_t parts, size_t part_bytes, size_t bytes_max) {
    if (part >= parts || parts > parts_of(bytes_max)) return false;
    if (part_bytes == 0 || part * kUpdatePartBytes + part_bytes > bytes_max) return false;
    return part + 1 == parts ? part_bytes <= kUpdatePartBytes : part_bytes == kUpdatePartBytes;
  }

  // REQUIRES: it fits. Parts that are here, or of another count, are ignored.
  void add(uint32_t part, uint32_t parts, const SharedBytes& bytes) {
    if (here_.empty()) here_.resize(parts);
    if (here_.size() != parts || here_[part]) return;
    here_[part] = true;
    if (parts == 1) {
      whole_ = bytes;
      return;
    }
    if (!buffer_) buffer_.emplace(parts * kUpdatePartBytes);
    std::memcpy(buffer_->span().data() + part * kUpdatePartBytes, bytes.data, bytes.size);
    bytes_ += bytes.size;
    if (++count_ == parts) whole_ = buffer_->first(bytes_);
  }
  bool complete() const { return whole_.has_value(); }
  const SharedBytes& whole() const { return *whole_; }  // REQUIRES: complete
  SharedBytes held() const {                            // all that it keeps, written or not
    if (buffer_) return buffer_->first(here_.size() * kUpdatePartBytes);
    return whole_.value_or(SharedBytes());
  }

 private:
  std::vector<bool> here_;
  std::optional<UnsetBytes> buffer_;  // of several parts
  size_t count_ = 0, bytes_ = 0;
  std::optional<SharedBytes> whole_;
};

}  // namespace starling
