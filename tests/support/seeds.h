#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace starling {

// How many rng seeds a random test draws: `usual`, times STARLING_SEEDS where it is set (`tools/test --long` sets it).
inline uint64_t seed_count(uint64_t usual) {
  const char* factor = std::getenv("STARLING_SEEDS");
  return factor == nullptr ? usual : usual * std::stoull(factor);
}

}  // namespace starling
