#include "kernels/projection.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/split_mix.h"
#include "kernels/transfer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/projection.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

#ifndef STARLING_PROJECTION_RUNS
#define STARLING_PROJECTION_RUNS
namespace starling {

constexpr size_t kRun = 64;  // elements that share a hash

struct BitsOfWord { alignas(64) uint32_t each[32]; };
constexpr BitsOfWord make_bits_of_word() {
  BitsOfWord bits{};
  for (uint32_t i = 0; i < 32; ++i) bits.each[i] = uint32_t{1} << i;
  return bits;
}
inline constexpr BitsOfWord kBitsOfWord = make_bits_of_word();

}  // namespace starling
#endif  // STARLING_PROJECTION_RUNS

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

// Sixteen running sums of a run: element i counts in sum i mod 16, negated where bit i of its hash says so.
class SignedRow {
  using D = hn::CappedTag<float, kProjectionBuckets>;
  using Words = hn::RebindToUnsigned<D>;
  static constexpr size_t kStep = kLanes<D>, kSteps = kProjectionBuckets / kStep;

 public:
  HWY_INLINE SignedRow(uint64_t signs, const float* x) {
    STARLING_UNROLL for (size_t v = 0; v < kSteps; ++v) sums_[v] = hn::Zero(D());
    STARLING_UNROLL for (size_t at = 0; at < kRun; at += kStep) {
      const auto word = hn::Set(Words(), static_cast<uint32_t>(signs >> (at & 32)));
      const auto negative = hn::TestBit(word, hn::LoadU(Words(), kBitsOfWord.each + at % 32));
      const auto value = load_next(D(), x + at);
      auto& sum = sums_[at % kProjectionBuckets / kStep];
      sum = hn::Add(sum, hn::IfThenElse(hn::RebindMask(D(), negative), hn::Neg(value), value));
    }
  }
  HWY_INLINE void store(float* to) const {
    STARLING_UNROLL for (size_t v = 0; v < kSteps; ++v) hn::StoreU(sums_[v], D(), to + v * kStep);
  }

 private:
  hn::Vec<D> sums_[kSteps];
};

// Element i of a run counts in bucket i + turn, which the hash draws: layers whose length is a multiple of the buckets
// would meet the same bucket with the same channel.
void add_runs(uint64_t run, const float* x, size_t runs, double* sums) {
  using Wide = hn::CappedTag<double, 8>;
  using Narrow = hn::Rebind<float, Wide>;
  constexpr size_t kStep = kLanes<Wide>, kSteps = kProjectionBuckets / kStep;
  hn::Vec<Wide> buckets[kSteps];
  STARLING_UNROLL for (size_t v = 0; v < kSteps; ++v) buckets[v] = hn::LoadU(Wide(), sums + v * kStep);
  for (size_t r = 0; r < runs; ++r, ++run, x += kRun) {
    const uint64_t signs = split_mix(2 * run + kSplitMixStep), turn = split_mix(2 * run + 1 + kSplitMixStep);
    const SignedRow row(signs, x);
    float twice[2 * kProjectionBuckets];
    row.store(twice), row.store(twice + kProjectionBuckets);
    const float* const turned = twice + kProjectionBuckets - turn % kProjectionBuckets;
    STARLING_UNROLL for (size_t v = 0; v < kSteps; ++v) {
      buckets[v] = hn::Add(buckets[v], hn::PromoteTo(Wide(), hn::LoadU(Narrow(), turned + v * kStep)));
    }
  }
  STARLING_UNROLL for (size_t v = 0; v < kSteps; ++v) hn::StoreU(buckets[v], Wide(), sums + v * kStep);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {
namespace {

HWY_EXPORT(add_runs);

constexpr size_t kPiece = kRun * 1024;  // copied from a GPU at a time

void add_piece(size_t first, const float* x, size_t count, std::array<double, kProjectionBuckets>& sums) {
  const size_t runs = count / kRun, rest = count % kRun;
  HWY_DYNAMIC_DISPATCH(add_runs)(first / kRun, x, runs, sums.data());
  if (rest == 0) return;
  float last[kRun] = {};
  std::copy_n(x + runs * kRun, rest, last);
  HWY_DYNAMIC_DISPATCH(add_runs)(first / kRun + runs, last, 1, sums.data());
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
#endif  // HWY_ONCE
