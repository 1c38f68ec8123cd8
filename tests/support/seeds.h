#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace starling {

// How many rng seeds a random test draws: `usual`, times STARLING_SEEDS where it is set; at least one. `tools/test
// --long` sets it above 1, the sanitized builds, which look for bad memory and not for rare events, below.
inline uint64_t seed_count(uint64_t usual) {
  const char* factor = std::getenv("STARLING_SEEDS");
  if (factor == nullptr) return usual;
  return std::max(uint64_t{1}, static_cast<uint64_t>(std::llround(static_cast<double>(usual) * std::stod(factor))));
}

// The first of these seeds: STARLING_FIRST_SEED, so that one failure can be repeated alone; else 1.
inline uint64_t first_seed() {
  const char* first = std::getenv("STARLING_FIRST_SEED");
  return first == nullptr ? 1 : std::stoull(first);
}

}  // namespace starling
