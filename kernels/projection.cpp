#include "kernels/projection.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/split_mix.h"
#include "kernels/transfer.h"

namespace starling {
namespace {

constexpr size_t kRun = 64;             // elements that share a hash
constexpr size_t kPiece = kRun * 1024;  // copied from a GPU at a time

// Element i of a run counts in bucket i + turn, which the hash draws: layers whose length is a multiple of the buckets
// would meet the same bucket with the same channel.
void add_run(uint64_t run, const float* x, std::array<double, kProjectionBuckets>& sums) {
  const uint64_t signs = split_mix(2 * run + kSplitMixStep), turn = split_mix(2 * run + 1 + kSplitMixStep);
  float row[kProjectionBuckets] = {};
  for (size_t i = 0; i < kRun; ++i) {
    const uint32_t sign = static_cast<uint32_t>(signs >> i) << 31;
    row[i % kProjectionBuckets] += std::bit_cast<float>(std::bit_cast<uint32_t>(x[i]) ^ sign);
  }
  for (size_t i = 0; i < kProjectionBuckets; ++i) sums[(i + turn) % kProjectionBuckets] += static_cast<double>(row[i]);
}

void add_piece(size_t first, const float* x, size_t count, std::array<double, kProjectionBuckets>& sums) {
  size_t i = 0;
  for (; i + kRun <= count; i += kRun) add_run((first + i) / kRun, x + i, sums);
  if (i == count) return;
  float rest[kRun] = {};
  std::copy(x + i, x + count, rest);
  add_run((first + i) / kRun, rest, sums);
}

}  // namespace

Projection project(ConstView x) {
  std::array<double, kProjectionBuckets> sums{};
  if (x.space == MemorySpace::kHost) {
    add_piece(0, x.data, x.count, sums);
  } else {
    std::vector<float> piece(std::min(kPiece, x.count));
    for (size_t at = 0; at < x.count; at += kPiece) {
      const size_t count = std::min(kPiece, x.count - at);
      copy_to_host({x.data + at, count, x.space}, piece.data());
      add_piece(at, piece.data(), count, sums);
    }
  }
  Projection projection{};
  const double scale = x.count > 0 ? 1 / std::sqrt(static_cast<double>(x.count)) : 0;
  for (size_t b = 0; b < kProjectionBuckets; ++b) projection[b] = static_cast<float>(scale * sums[b]);
  return projection;
}

double projected_distance(const Projection& a, const Projection& b) {
  double squares = 0;
  for (size_t i = 0; i < kProjectionBuckets; ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

}  // namespace starling
