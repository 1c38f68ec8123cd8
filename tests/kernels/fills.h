// What a loop over numbers must survive, by name: fills of a vector, and the sizes at which tails go wrong.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/inputs.h"
#include "tests/support/seeds.h"

namespace starling {

enum class Fill { kNormal, kZero, kNegativeZero, kEqual, kDenormal, kRandomBits, kNan, kInfinity, kLargest };

inline constexpr std::pair<Fill, const char*> kFills[] = {
    {Fill::kNormal, "normal"},     {Fill::kZero, "0"},
    {Fill::kNegativeZero, "-0"},   {Fill::kEqual, "equal"},
    {Fill::kDenormal, "denormal"}, {Fill::kRandomBits, "random bits"},
    {Fill::kNan, "NaN"},           {Fill::kInfinity, "infinity"},
    {Fill::kLargest, "FLT_MAX"}};

inline float filled_element(TestRng& rng, Fill fill, float normal) {
  switch (fill) {
    case Fill::kNormal:
    case Fill::kRandomBits: return normal;
    case Fill::kZero: return 0.0f;
    case Fill::kNegativeZero: return -0.0f;
    case Fill::kEqual: return 0.7f;
    case Fill::kDenormal: return normal * 1e-40f;
    case Fill::kNan: {
      const uint32_t sign = static_cast<uint32_t>(rng()) & 0x80000000u;
      return rng() % 4 != 0 ? normal : std::bit_cast<float>(0x7F800001u | sign);
    }
    case Fill::kInfinity: return rng() % 4 != 0 ? normal : std::copysign(INFINITY, normal);
    case Fill::kLargest: return std::copysign(FLT_MAX, normal);
  }
  return normal;
}

inline std::vector<float> filled_vector(TestRng& rng, Fill fill, size_t count) {
  std::vector<float> x = fill == Fill::kRandomBits ? hostile_vector(rng, count) : normal_vector(rng, count, 1.0f);
  for (float& value : x) value = filled_element(rng, fill, value);
  return x;
}

// Sizes at which tails go wrong, edges of the tiles that blocks of a GPU take, and a large one; with STARLING_SEEDS
// above 1, as `tools/test --long` sets it, larger ones too.
inline bool long_run() { return seed_count(2) > 2; }
inline constexpr size_t kTileSizes[] = {1024, 2047, 2048, 2049}, kLargeSize = 50001;
inline std::vector<size_t> hostile_sizes() {
  std::vector<size_t> sizes = {0, 1, 3, 31, 32, 33, 1023, 1025, kLargeSize};
  sizes.insert(sizes.end(), std::begin(kTileSizes), std::end(kTileSizes));
  if (long_run()) sizes.insert(sizes.end(), {4097, 1000003});
  return sizes;
}

struct FilledSize {
  size_t count;
  Fill fill;
  std::string name;
};

// Every fill at every size; the large one and edges of tiles of random bits alone, but in a long run.
inline std::vector<FilledSize> filled_sizes() {
  std::vector<FilledSize> result;
  for (size_t count : hostile_sizes()) {
    const bool is_edge = std::find(std::begin(kTileSizes), std::end(kTileSizes), count) != std::end(kTileSizes);
    for (const auto& [fill, name] : kFills) {
      if ((count == kLargeSize || is_edge) && fill != Fill::kRandomBits && !long_run()) continue;
      result.push_back({count, fill, std::to_string(count) + " of " + name});
    }
  }
  return result;
}

// Bits, where one NaN is as good as another: a GPU makes its own, a CPU hands on that of an operand.
inline std::vector<uint32_t> bits_but_nan(const std::vector<float>& x) {
  std::vector<uint32_t> bits = bits_of(x);
  for (uint32_t& value : bits) {
    if ((value & 0x7FFFFFFFu) > 0x7F800000u) value = 0x7FFFFFFFu;
  }
  return bits;
}

}  // namespace starling
