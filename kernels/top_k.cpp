#include "kernels/top_k.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/top_k.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/check.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

// Appends the lanes that are wanted, and their indices; the first lane's is `first`. The value is how many.
template <class DI>
HWY_INLINE size_t append(DI di, hn::Mask<DI> wanted, hn::Vec<DI> bits, uint32_t first, uint32_t* indices,
                         int32_t* magnitudes) {
#if HWY_TARGET <= HWY_AVX3
  const hn::RebindToUnsigned<DI> du;
  hn::StoreU(hn::BitCast(du, hn::Compress(hn::BitCast(di, hn::Iota(du, first)), wanted)), du, indices);
  hn::StoreU(hn::Compress(bits, wanted), di, magnitudes);
  return hn::CountTrue(di, wanted);
#else
  static_assert(kLanes<DI> <= 8, "a byte holds the mask");
  HWY_ALIGN int32_t lanes[kLanes<DI>];
  uint8_t mask[8] = {};   // so many bytes may be written
  (void)hn::StoreMaskBits(di, wanted, mask);
  if (mask[0] == 0) return 0;
  hn::Store(bits, di, lanes);
  size_t found = 0;
  for (unsigned left = mask[0]; left != 0; left &= left - 1, ++found) {
    const auto lane = static_cast<size_t>(std::countr_zero(left));
    indices[found] = first + static_cast<uint32_t>(lane);
    magnitudes[found] = lanes[lane];
  }
  return found;
#endif
}

// Appends every element whose magnitude has at least these bits, in order, and raises *largest to the largest bits
// seen. Whole vectors are stored, so the outputs need room for one vector more than is found.
size_t collect_loop(const float* x, size_t begin, size_t count, int32_t floor, uint32_t* indices, int32_t* magnitudes,
                    int32_t* largest) {
  constexpr size_t kUnroll = 4;
  constexpr size_t kAhead = 2048;   // elements fetched before they are needed: a wrong guess at a branch stops that
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const size_t lanes = hn::Lanes(d);
  const auto below = hn::Set(di, floor - 1);   // integers compare by Gt alone in Highway 1.0
  auto best = hn::Zero(di);
  size_t found = 0, i = 0;
  for (; i + kUnroll * lanes <= count; i += kUnroll * lanes) {
    hn::Vec<decltype(di)> bits[kUnroll];
    auto group = hn::Zero(di);
    STARLING_UNROLL for (size_t v = 0; v < kUnroll; ++v) {
      __builtin_prefetch(x + i + v * lanes + kAhead);
      bits[v] = magnitude_bits(d, hn::LoadU(d, x + i + v * lanes));
      group = hn::Max(group, bits[v]);
    }
    best = hn::Max(best, group);
#if HWY_TARGET > HWY_AVX3   // no instruction compresses: then a group that holds nothing is not worth a try
    if (hn::AllFalse(di, hn::Gt(group, below))) continue;
#endif
    STARLING_UNROLL for (size_t v = 0; v < kUnroll; ++v) {
      found += append(di, hn::Gt(bits[v], below), bits[v], static_cast<uint32_t>(begin + i + v * lanes),
                      indices + found, magnitudes + found);
    }
  }
  int32_t most = std::max(*largest, max_lane(di, best));
  for (; i < count; ++i) {
    const int32_t magnitude = std::bit_cast<int32_t>(x[i]) & 0x7FFFFFFF;
    most = std::max(most, magnitude);
    if (magnitude < floor) continue;
    indices[found] = static_cast<uint32_t>(begin + i);
    magnitudes[found++] = magnitude;
  }
  *largest = most;
  return found;
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(collect_loop);

namespace {

constexpr int32_t kLargestFinite = 0x7F7FFFFF;
constexpr int32_t kSmallestNonzero = 1;
constexpr size_t kPiece = kTopKPiece;    // elements read before the candidates' memory may grow
constexpr size_t kVectorMax = 64;        // elements; no instruction set has more of them in a vector
constexpr size_t kUnsampledMax = 4096;   // elements; so few are cheaper to order than to sample
constexpr size_t kSampleMax = 65536;
constexpr int kBinBits = 11;             // 8 KiB of counters fit the nearest cache

// Draws some elements from each of equal strides, at a hashed place of it, so that rows of a matrix do not line up.
void draw_sample(const TopKValues& values, size_t count, std::vector<int32_t>* sample) {
  const size_t run = values.sampled;
  const size_t most = run * std::max<size_t>(64, (count + kSampleMax - 1) / kSampleMax);
  const size_t stride = most / values.aligned * values.aligned;
  sample->resize(count / stride * run);
  for (size_t i = 0; i < count / stride; ++i) {
    const uint64_t hash = (i * 0x9E3779B97F4A7C15u) >> 32;
    const size_t place = (hash * (stride / values.aligned) >> 32) * values.aligned;
    const float* const x = values.at(i * stride + place, run);
    for (size_t j = 0; j < run; ++j) (*sample)[i * run + j] = std::bit_cast<int32_t>(x[j]) & 0x7FFFFFFF;
  }
}

// The k-th largest, k >= 1. A histogram finds the few it may be: nth_element over all is slow, because no processor
// predicts its branches.
int32_t kth_largest(const int32_t* values, size_t count, size_t k, std::vector<int32_t>* near) {
  const auto [low, high] = std::minmax_element(values, values + count);
  const int32_t smallest = *low;
  const auto width = static_cast<int>(std::bit_width(static_cast<uint32_t>(*high - smallest)));
  const int shift = std::max(0, width - kBinBits);
  std::array<uint32_t, 1 << kBinBits> bins{};
  for (size_t i = 0; i < count; ++i) ++bins[static_cast<size_t>((values[i] - smallest) >> shift)];
  size_t bin = bins.size() - 1;
  for (; bins[bin] < k; --bin) k -= bins[bin];
  near->clear();
  for (size_t i = 0; i < count; ++i) {
    if (static_cast<size_t>((values[i] - smallest) >> shift) == bin) near->push_back(values[i]);
  }
  const auto place = near->begin() + static_cast<ptrdiff_t>(k) - 1;
  std::nth_element(near->begin(), place, near->end(), std::greater<>());
  return *place;
}

size_t collect(const TopKValues& values, size_t count, int32_t floor, TopKScratch* scratch, int32_t* largest) {
  size_t found = 0;
  for (size_t at = 0; at < count; at += kPiece) {
    const size_t room = found + kPiece + kVectorMax;
    if (scratch->candidates.size() < room) {
      scratch->candidates.resize(room);
      scratch->magnitudes.resize(room);
    }
    const size_t length = std::min(kPiece, count - at);
    found += HWY_DYNAMIC_DISPATCH(collect_loop)(values.at(at, length), at, length, floor,
                                                scratch->candidates.data() + found, scratch->magnitudes.data() + found,
                                                largest);
  }
  return found;
}

// The k largest of so many candidates, in the candidates' order.
size_t choose(size_t found, size_t k, TopKScratch* scratch, uint32_t* indices) {
  if (found <= k) {
    std::copy_n(scratch->candidates.begin(), found, indices);
    return found;
  }
  if (k == 0) return 0;
  const int32_t* const magnitudes = scratch->magnitudes.data();
  const int32_t smallest = kth_largest(magnitudes, found, k, &scratch->near);
  const auto larger = std::count_if(magnitudes, magnitudes + found, [&](int32_t bits) { return bits > smallest; });
  size_t ties = k - static_cast<size_t>(larger);
  size_t chosen = 0;
  for (size_t i = 0; chosen < k; ++i) {   // without a branch for each: they cannot be predicted
    const bool tie = magnitudes[i] == smallest;
    indices[chosen] = scratch->candidates[i];
    chosen += (magnitudes[i] > smallest) | (tie & (ties > 0));
    ties -= tie & (ties > 0);
  }
  return k;
}

}  // namespace

// One pass finds all elements above a floor that a sample puts just below the k-th largest. The sample decides only
// how long that takes: a floor that lets through fewer than k is lowered, at last to all that are not zero.
std::optional<size_t> top_k(const TopKValues& values, size_t count, size_t k, TopKScratch* scratch,
                            uint32_t* indices) {
  STARLING_CHECK(count <= UINT32_MAX);
  scratch->sample.clear();
  if (count > kUnsampledMax) draw_sample(values, count, &scratch->sample);
  const double expected = static_cast<double>(k) / static_cast<double>(std::max<size_t>(count, 1)) *
                          static_cast<double>(scratch->sample.size());
  // Six standard deviations of how many of the k fall into a sample of independent elements.
  size_t rank = static_cast<size_t>(expected + 6 * std::sqrt(expected)) + 8;
  for (;; rank *= 4) {
    const std::vector<int32_t>& sample = scratch->sample;
    const bool sampled = rank < sample.size();
    const int32_t floor =
        sampled ? std::max(kSmallestNonzero, kth_largest(sample.data(), sample.size(), rank + 1, &scratch->near))
                : kSmallestNonzero;
    int32_t largest = 0;
    const size_t found = collect(values, count, floor, scratch, &largest);
    if (largest > kLargestFinite) return std::nullopt;
    if (found >= k || floor == kSmallestNonzero) return choose(found, k, scratch, indices);
  }
}

std::optional<size_t> top_k(const float* x, size_t count, size_t k, TopKScratch* scratch, uint32_t* indices) {
  return top_k({[x](size_t begin, size_t) { return x + begin; }}, count, k, scratch, indices);
}

}  // namespace starling
#endif  // HWY_ONCE
