// The k largest magnitudes of a vector, exactly. Host memory.
// Determinism: the same indices on every instruction set; of equal magnitudes the lower index is taken first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace starling {

// Working memory of top_k(), kept by callers from one call to the next. It grows to what the inputs need: 8 bytes for
// each of some 2 k elements; 12 bytes for each element of the vector where most magnitudes are equal.
struct TopKScratch {
  std::vector<int32_t> sample, magnitudes, near;
  std::vector<uint32_t> candidates;
};

// Writes the indices of the k largest |x[i]|, ascending, and returns how many: min(k, the elements that are not zero).
// nullopt if x holds a NaN or an infinity. REQUIRES: indices has room for min(k, count); count below 2^32.
[[nodiscard]] std::optional<size_t> top_k(const float* x, size_t count, size_t k, TopKScratch* scratch,
                                          uint32_t* indices);

// Values that are made when they are read, twice or more often: of a vector that need not be in memory as a whole.
inline constexpr size_t kTopKPiece = 4096;
struct TopKValues {
  // Elements begin to begin + count - 1, at most kTopKPiece, until the next call.
  std::function<const float*(size_t begin, size_t count)> at;
  size_t sampled = 1;  // so many in a row are looked at beforehand, at multiples of `aligned`; at most `aligned`,
  size_t aligned = 1;  // or both 1; it divides kTopKPiece, and is at most 64 times `sampled`
};
[[nodiscard]] std::optional<size_t> top_k(const TopKValues& values, size_t count, size_t k, TopKScratch* scratch,
                                          uint32_t* indices);

}  // namespace starling
