// An envelope around the segment of a header, so that what was changed gets past the magic number and the checksum.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "gossip/net/wire.h"

namespace starling {

inline std::vector<std::byte> sealed(std::span<const std::byte> segment) {
  std::vector<std::byte> header(24 + segment.size() / 8 * 8);
  const uint16_t version = kProtocolVersion;
  const uint32_t table[2] = {0, static_cast<uint32_t>(segment.size() / 8)};
  std::memcpy(header.data(), "STRL", 4);
  std::memcpy(header.data() + 4, &version, sizeof version);
  std::memcpy(header.data() + 16, table, sizeof table);
  std::copy_n(segment.begin(), segment.size() / 8 * 8, header.begin() + 24);
  const uint64_t checksum = xxh3_64(std::span(header).subspan(16));
  std::memcpy(header.data() + 8, &checksum, sizeof checksum);
  return header;
}

}  // namespace starling
