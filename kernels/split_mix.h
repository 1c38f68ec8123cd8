// SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"): the state grows by a step,
// and each of its values is mixed into 64 even bits.
#pragma once

#include <cstdint>

namespace starling {

inline constexpr uint64_t kSplitMixStep = 0x9E3779B97F4A7C15u;

constexpr uint64_t split_mix(uint64_t state) {
  state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9u;
  state = (state ^ state >> 27) * 0x94D049BB133111EBu;
  return state ^ state >> 31;
}

}  // namespace starling
