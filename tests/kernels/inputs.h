// Fresh random inputs for the number loops and the codecs. Each test prints the rng seed it drew; set
// STARLING_TEST_RNG_SEED to run with that one again.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <random>
#include <vector>

namespace starling {

inline uint64_t draw_rng_seed() {
  const char* wanted = std::getenv("STARLING_TEST_RNG_SEED");
  const uint64_t rng_seed = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : std::random_device{}();
  std::cout << "rng_seed " << rng_seed << std::endl;
  return rng_seed;
}

using TestRng = std::mt19937_64;

inline constexpr size_t kTestSizes[] = {0, 1, 3, 15, 16, 17, 63, 4095, 4096, 4097, 12345};

inline std::vector<float> normal_vector(TestRng& rng, size_t count, float deviation) {
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> x(count);
  for (float& value : x) value = normal(rng);
  return x;
}

// Finite floats of every magnitude: random bit patterns with the awkward values strewn in.
inline std::vector<float> hostile_vector(TestRng& rng, size_t count) {
  constexpr float kAwkward[] = {0.0f,     -0.0f, FLT_MIN, -FLT_MIN, FLT_TRUE_MIN, -FLT_TRUE_MIN, FLT_MAX,
                                -FLT_MAX, 0.5f,  -0.5f,   1.5f,     2.5f,         0.49999997f,   16777216.0f};
  std::vector<float> x(count);
  for (float& value : x) {
    const uint64_t draw = rng();
    value = std::bit_cast<float>(static_cast<uint32_t>(draw));
    if (!std::isfinite(value) || draw >> 61 == 0) value = kAwkward[(draw >> 40) % std::size(kAwkward)];
  }
  return x;
}

inline std::vector<std::byte> random_bytes(TestRng& rng, size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng());
  return bytes;
}

// Compares bits: tells -0 from 0 and finds a NaN equal to itself.
inline std::vector<uint32_t> bits_of(const std::vector<float>& x) {
  std::vector<uint32_t> bits;
  for (float value : x) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

}  // namespace starling
