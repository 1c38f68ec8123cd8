#include "compression/low_rank.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cast.h"
#include "kernels/check.h"
#include "kernels/pair.h"
#include "kernels/split_mix.h"

namespace starling {
namespace {

constexpr float kScale = 64;          // momentum is small, and binary16 is coarse below 6e-5
constexpr double kDependent = 1e-9;   // of a vector's length: what is left of it after those before is rounding

// Nearly normal: the sum of four even numbers of 16 bits, with mean 0 and deviation 1. No function that differs between
// machines.
float normal_at(uint64_t seed, size_t place) {
  constexpr float kDeviation = 37837.2f;
  const uint64_t bits = split_mix((seed ^ split_mix(place + kSplitMixStep)) + kSplitMixStep);
  int32_t sum = -2 * 0xFFFF;
  for (int part = 0; part < 4; ++part) sum += static_cast<int32_t>(bits >> (16 * part) & 0xFFFF);
  return static_cast<float>(sum) / kDeviation;
}

// A product of finite values may exceed a float; then the half holds the largest value, and a difference of two
// infinite sums counts as none. Any bytes are sound, since both ends make the delta from them.
void write_values(std::vector<float>& values, MutableBytes out) {
  constexpr float kMost = std::numeric_limits<float>::max();
  for (float& value : values) {
    value *= kScale;
    value = std::isnan(value) ? 0 : std::clamp(value, -kMost, kMost);
  }
  const bool finite = f32_to_fp16(values.data(), values.size(), out.data());
  STARLING_CHECK(finite);
}

// peer - own, exactly as a delta of binary16 payloads has it.
std::vector<float> difference(Bytes own, Bytes peer, size_t count) {
  std::vector<float> values(count);
  pair_apply_fp16(1 / kScale, own.data(), peer.data(), count, values.data());
  return values;
}

}  // namespace

void make_orthonormal(std::vector<double>& vectors, size_t rows) {
  const auto dot = [&](size_t a, size_t b) {
    double sum = 0;
    for (size_t i = 0; i < rows; ++i) sum += vectors[a + i] * vectors[b + i];
    return sum;
  };
  for (size_t at = 0; at < vectors.size(); at += rows) {
    const double whole = std::sqrt(dot(at, at));
    for (size_t before = 0; before < at; before += rows) {
      const double share = dot(before, at);
      for (size_t i = 0; i < rows; ++i) vectors[at + i] -= share * vectors[before + i];
    }
    const double left = std::sqrt(dot(at, at));
    const auto begin = vectors.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = begin + static_cast<std::ptrdiff_t>(rows);
    if (left <= kDependent * whole) {
      std::fill(begin, end, 0.0);
      continue;
    }
    const auto first = std::find_if(begin, end, [](double value) { return value != 0; });
    const double factor = (*first < 0 ? -1 : 1) / left;
    std::transform(begin, end, begin, [factor](double value) { return value * factor; });
  }
}

LowRank::LowRank(const MatrixSize& size) : size_(size) {
  STARLING_CHECK(size.rows > 0 && size.columns > 0 && size.rank > 0);
}

void LowRank::write_first(const float* x, uint64_t seed, MutableBytes out) const {
  STARLING_CHECK(out.size() == first_bytes());
  std::vector<float> q(size_.columns * size_.rank), y(size_.rows * size_.rank);
  const float scale = 1 / std::sqrt(static_cast<float>(size_.columns));   // so that y is as large as x is
  for (size_t i = 0; i < q.size(); ++i) q[i] = scale * normal_at(seed, i);
  matrix_times(size_, x, q.data(), y.data());
  write_values(y, out);
}

std::vector<float> LowRank::directions(Bytes own_first, Bytes peer_first) const {
  STARLING_CHECK(own_first.size() == first_bytes() && peer_first.size() == own_first.size());
  const std::vector<float> moved = difference(own_first, peer_first, size_.rows * size_.rank);
  std::vector<double> wide(moved.begin(), moved.end());
  make_orthonormal(wide, size_.rows);
  std::vector<float> p(wide.size());
  std::transform(wide.begin(), wide.end(), p.begin(), [](double value) { return static_cast<float>(value); });
  return p;
}

void LowRank::write_second(const float* x, Bytes own_first, Bytes peer_first, MutableBytes out) const {
  STARLING_CHECK(out.size() == second_bytes());
  std::vector<float> z(size_.columns * size_.rank);
  transposed_times(size_, x, directions(own_first, peer_first).data(), z.data());
  write_values(z, out);
}

PayloadStatus LowRank::check(Bytes half, size_t bytes) {
  if (half.size() != bytes) return PayloadStatus::kWrongSize;
  return all_finite_fp16(half.data(), bytes / kValueBytes) ? PayloadStatus::kOk : PayloadStatus::kNonFinite;
}

PairStats LowRank::stats(Bytes own_second, Bytes peer_second) const {
  STARLING_CHECK(own_second.size() == second_bytes() && peer_second.size() == own_second.size());
  const PairSums sums = pair_sums_fp16(own_second.data(), peer_second.data(), size_.columns * size_.rank);
  constexpr double kScaleSquared = double{kScale} * kScale;
  return {.squared_distance = sums.squared_distance / kScaleSquared,
          .max_abs_difference = sums.max_abs_difference / kScale};
}

void LowRank::apply(float coefficient, Bytes own, Bytes peer, View x) const {
  STARLING_CHECK(x.space == MemorySpace::kHost && x.count == element_count());
  STARLING_CHECK(own.size() == first_bytes() + second_bytes() && peer.size() == own.size());
  const std::vector<float> p = directions(own.first(first_bytes()), peer.first(first_bytes()));
  const std::vector<float> z = difference(own.subspan(first_bytes()), peer.subspan(first_bytes()),
                                          size_.columns * size_.rank);
  add_outer(size_, coefficient, p.data(), z.data(), x.data);
}

}  // namespace starling
