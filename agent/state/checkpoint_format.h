// Numbers and small pieces that the writer and the reader of checkpoint files share.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gossip/limits.h"

namespace starling::checkpoint_format {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian and written as they lie");

inline constexpr std::array<char, 8> kMagic = {'S', 'T', 'A', 'R', 'C', 'K', 'P', 'T'};
inline constexpr std::array<char, 8> kEndMagic = {'S', 'T', 'A', 'R', 'C', 'E', 'N', 'D'};
inline constexpr uint32_t kVersion = 1;
inline constexpr size_t kHeaderBytes = 4096;  // a page: the params then start on one
inline constexpr size_t kHashBytes = 16;

struct Header {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t header_bytes;
  uint64_t swarm_id, round, steps, samples, generation;
  uint64_t params, momentum;  // elements
  uint64_t trainer_state_bytes, codec_states_bytes;
  uint64_t blocks;
  uint64_t alone;  // 0 or 1; 0 in files of version 0.2.0 and earlier
};
static_assert(sizeof(Header) == 104);

struct Footer {
  uint64_t file_bytes;
  std::array<uint8_t, 32> digest;  // of everything before it, file_bytes included
  std::array<char, 8> magic;
};
static_assert(sizeof(Footer) == 48);
inline constexpr size_t kDigestOffsetFromEnd = sizeof(Footer) - offsetof(Footer, digest);

inline uint64_t block_count(uint64_t params) {
  return (params * sizeof(float) + kTransferBlockBytes - 1) / kTransferBlockBytes;
}

}  // namespace starling::checkpoint_format
