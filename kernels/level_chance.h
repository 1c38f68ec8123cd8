// The random numbers of kernels/levels.h, shared by the host's loops and the GPU's, so that they cannot differ.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling {

// Wellons' lowbias32: every bit of the counter changes every bit of the result with nearly even odds.
inline constexpr uint32_t kLevelHashFirst = 0x7FEB352Du, kLevelHashSecond = 0x846CA68Bu;

constexpr uint32_t level_hash(uint32_t v) {
  v = (v ^ v >> 16) * kLevelHashFirst;
  v = (v ^ v >> 15) * kLevelHashSecond;
  return v ^ v >> 16;
}

constexpr uint32_t level_key(uint64_t rng_seed) {
  return static_cast<uint32_t>(((rng_seed ^ rng_seed >> 32) * 0x9E3779B97F4A7C15u) >> 32);
}

// 32 random bits for the element at this position.
constexpr uint32_t level_random(uint32_t key, size_t position) {
  return level_hash(key + static_cast<uint32_t>(position));
}

// 16 random bits for element i of a vector that begins at this position. Two elements that lie so far apart
// in a group of kernels/levels.h take theirs from one hash, which costs as much as all else in a code.
inline constexpr size_t kLevelPair = 32;
constexpr uint32_t level_share(uint32_t key, size_t first, size_t i) {
  return level_random(key, first + (i & ~kLevelPair)) >> ((i & kLevelPair) != 0 ? 16 : 0) & 0xFFFFu;
}

}  // namespace starling
