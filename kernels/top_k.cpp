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

// A bit for each lane.
template <class DI>
HWY_INLINE uint64_t bits_of_mask(DI di, hn::Mask<DI> mask) {
  uint8_t bytes[8] = {};  // so many may be written
  (void)hn::StoreMaskBits(di, mask, bytes);
  uint64_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits;
}

// Appends element i of x for each bit i of `wanted`, in order; the value is how many. Few are wanted as a rule, so two
// are taken without asking whether they are there: no processor could predict the answers. As a call it would put the
// caller's vectors into memory and fetch them again, group by group.
HWY_INLINE size_t append(const float* x, uint32_t first, uint64_t wanted, int32_t floor, uint32_t* indices,
                         int32_t* magnitudes) {
  const auto found = static_cast<size_t>(std::popcount(wanted));
  const auto take = [&](size_t to) HWY_ATTR {
    const auto i = static_cast<size_t>(std::countr_zero(wanted)) % 64;
    indices[to] = first + static_cast<uint32_t>(i);
    magnitudes[to] = std::bit_cast<int32_t>(x[i]) & 0x7FFFFFFF;
    wanted &= wanted - 1;
  };
  if (found <= 2) {
    take(0);
    take(1);
    return found;
  }
#if HWY_TARGET <= HWY_AVX3
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::RebindToUnsigned<decltype(d)> du;
  size_t to = 0;
  for (size_t i = 0; i < 64; i += hn::Lanes(d)) {
    const auto bits = magnitude_bits(d, hn::LoadU(d, x + i));
    const auto mask = hn::Gt(bits, hn::Set(di, floor - 1));
    const auto places = hn::BitCast(di, hn::Iota(du, first + static_cast<uint32_t>(i)));
    hn::StoreU(hn::BitCast(du, hn::Compress(places, mask)), du, indices + to);
    hn::StoreU(hn::Compress(bits, mask), di, magnitudes + to);
    to += hn::CountTrue(di, mask);
  }
#else
  (void)floor;
  for (size_t to = 0; to < found; ++to) take(to);
#endif
  return found;
}

// Appends every element whose magnitude has at least these bits, in order, and raises *largest to the largest bits
// seen. Whole vectors are stored, so the outputs need room for one vector more than is found.
size_t collect_loop(const float* x, size_t begin, size_t count, int32_t floor, uint32_t* indices, int32_t* magnitudes,
                    int32_t* largest) {
  constexpr size_t kGroup = 64;
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto below = hn::Set(di, floor - 1);  // integers compare by Gt alone in Highway 1.0
  auto best = hn::Zero(di);
  size_t found = 0, i = 0;
  for (; i + kGroup <= count; i += kGroup) {
    uint64_t wanted = 0;
    STARLING_UNROLL for (size_t v = 0; v < kGroup; v += kLanes<decltype(d)>) {
      const auto bits = magnitude_bits(d, load_next(d, x + i + v));
      best = hn::Max(best, bits);
      wanted |= bits_of_mask(di, hn::Gt(bits, below)) << v;
    }
    found += append(x + i, static_cast<uint32_t>(begin + i), wanted, floor, indices + found, magnitudes + found);
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
constexpr size_t kPiece = kTopKPiece;   // elements read before the candidates' memory may grow
constexpr size_t kVectorMax = 64;       // elements; no instruction set has more of them in a vector
constexpr size_t kUnsampledMax = 4096;  // elements; so few are cheaper to order than to sample
constexpr size_t kSampleMax = 65536;
constexpr size_t kRun = 8;    // neighbors in a sample: they come from memory together
constexpr int kBinBits = 11;  // 8 KiB of counters fit the nearest cache

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

struct Kth {
  int32_t value = 0;
  size_t larger = 0, equal = 0;  // elements
};

// The k-th largest, k >= 1, of values between `low` and `high`. A histogram finds the few it may be: nth_element over
// all is slow, because no processor predicts its branches.
Kth kth_largest(const int32_t* values, size_t count, size_t k, int32_t low, int32_t high, std::vector<int32_t>* near) {
  const auto width = static_cast<int>(std::bit_width(static_cast<uint32_t>(high - low)));
  const int shift = std::max(0, width - kBinBits);
  const auto bin_of = [&](int32_t value) { return static_cast<size_t>((value - low) >> shift); };
  uint32_t bins[1 << kBinBits] = {};
  for (size_t i = 0; i < count; ++i) ++bins[bin_of(values[i])];
  size_t bin = (1 << kBinBits) - 1, above = 0;
  for (; above + bins[bin] < k; --bin) above += bins[bin];
  if (shift == 0) return {low + static_cast<int32_t>(bin), above, bins[bin]};  // as where all are equal
  near->clear();
  for (size_t i = 0; i < count; ++i) {
    if (bin_of(values[i]) == bin) near->push_back(values[i]);
  }
  const auto place = near->begin() + static_cast<ptrdiff_t>(k - above) - 1;
  std::nth_element(near->begin(), place, near->end(), std::greater<>());
  Kth kth{*place, above, 0};
  for (const int32_t value : *near) {
    kth.larger += value > kth.value;
    kth.equal += value == kth.value;
  }
  return kth;
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
    found +=
        HWY_DYNAMIC_DISPATCH(collect_loop)(values.at(at, length), at, length, floor, scratch->candidates.data() + found,
                                           scratch->magnitudes.data() + found, largest);
  }
  return found;
}

// The k largest of so many candidates, in the candidates' order; no magnitude is outside of these two.
size_t choose(size_t found, size_t k, int32_t smallest, int32_t largest, TopKScratch* scratch, uint32_t* indices) {
  const uint32_t* const candidates = scratch->candidates.data();
  if (found <= k) {
    std::copy_n(candidates, found, indices);
    return found;
  }
  if (k == 0) return 0;
  const int32_t* const magnitudes = scratch->magnitudes.data();
  const Kth kth = kth_largest(magnitudes, found, k, smallest, largest, &scratch->near);
  size_t ties = k - kth.larger;
  // Without a branch for each: they cannot be predicted. A candidate that is not taken is overwritten by the next.
  size_t chosen = 0, i = 0;
  for (const size_t some = ties == kth.equal ? 0 : k; chosen < some; ++i) {
    const bool tie = magnitudes[i] == kth.value;
    indices[chosen] = candidates[i];
    chosen += (magnitudes[i] > kth.value) | (tie & (ties > 0));
    ties -= tie & (ties > 0);
  }
  for (; chosen < k; ++i) {  // all ties are taken
    indices[chosen] = candidates[i];
    chosen += magnitudes[i] >= kth.value;
  }
  return k;
}

}  // namespace

// One pass finds all elements above a floor that a sample puts just below the k-th largest. The sample decides only
// how long that takes: a floor that lets through fewer than k is lowered, at last to all that are not zero.
std::optional<size_t> top_k(const TopKValues& values, size_t count, size_t k, TopKScratch* scratch, uint32_t* indices) {
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
        sampled ? std::max(kSmallestNonzero,
                           kth_largest(sample.data(), sample.size(), rank + 1, 0, INT32_MAX, &scratch->near).value)
                : kSmallestNonzero;
    int32_t largest = 0;
    const size_t found = collect(values, count, floor, scratch, &largest);
    if (largest > kLargestFinite) return std::nullopt;
    if (found >= k || floor == kSmallestNonzero) return choose(found, k, floor, largest, scratch, indices);
  }
}

std::optional<size_t> top_k(const float* x, size_t count, size_t k, TopKScratch* scratch, uint32_t* indices) {
  return top_k({[x](size_t begin, size_t) { return x + begin; }, kRun, kRun}, count, k, scratch, indices);
}

}  // namespace starling
#endif  // HWY_ONCE
