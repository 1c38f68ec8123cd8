// Seeded random numbers, the same on every machine. Concrete on purpose: the seam is the seed.
// The std distributions are not used anywhere: their results differ between standard libraries.
// Generator: xoshiro256** seeded by splitmix64 (Blackman and Vigna, public domain algorithm).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/split_mix.h"

namespace starling {

class Rng {
 public:
  explicit Rng(uint64_t rng_seed) {
    for (uint64_t& word : state_) {
      rng_seed += kSplitMixStep;
      word = split_mix(rng_seed);
    }
  }

  uint64_t next_u64() {
    const uint64_t result = rotate(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound). REQUIRES: bound > 0. The bias of the multiply-shift is below 2^-32.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(((next_u64() >> 32) * bound) >> 32); }

  double uniform() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }  // [0, 1)
  bool chance(double probability) { return uniform() < probability; }

  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(static_cast<uint32_t>(i))]);
  }

 private:
  static uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t state_[4];
};

}  // namespace starling
