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

}  // namespace starling
