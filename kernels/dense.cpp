#include "kernels/dense.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dense.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

// A vector of values from element i on.
template <bool kBf16, class D>
HWY_INLINE hn::Vec<D> load_values(D d, const std::byte* values, size_t i) {
  if constexpr (kBf16) {
    const hn::RebindToUnsigned<D> d32;
    const hn::Rebind<uint16_t, D> d16;
    const auto upper = hn::PromoteTo(d32, load_bytes(d16, values + i * sizeof(uint16_t)));
    return hn::BitCast(d, hn::ShiftLeft<16>(upper));
  } else {
    return load_bytes(d, values + i * sizeof(float));
  }
}

// Adds elements `at` on of kTerms payloads, one after the other.
template <bool kBf16, size_t kTerms>
HWY_INLINE void add_terms(const DenseTerm* terms, size_t at, size_t count, float* y) {
  for_each_vector<float>(count, [&](auto d, size_t i) HWY_ATTR {
    auto sum = load_next(d, y + i);
    STARLING_UNROLL for (size_t t = 0; t < kTerms; ++t) {
      const auto value = load_values<kBf16>(d, terms[t].values, at + i);
      sum = hn::Add(sum, hn::Mul(hn::Set(d, terms[t].weight), value));
    }
    hn::StoreU(sum, d, y + i);
  });
}

constexpr size_t kTogether = 4;

template <bool kBf16>
void add_some(const DenseTerm* terms, size_t together, size_t at, size_t count, float* y) {
  switch (together) {
    case 1: return add_terms<kBf16, 1>(terms, at, count, y);
    case 2: return add_terms<kBf16, 2>(terms, at, count, y);
    case 3: return add_terms<kBf16, 3>(terms, at, count, y);
    default: return add_terms<kBf16, kTogether>(terms, at, count, y);
  }
}

void dense_axpy_loop(const DenseTerm& term, float* y, size_t count) {
  if (term.is_bf16) return add_terms<true, 1>(&term, 0, count, y);
  add_terms<false, 1>(&term, 0, count, y);
}

// A piece of the sum stays in the nearest cache until all terms have been added to it, however many they are.
void dense_merge_loop(std::span<const DenseTerm> terms, float* out, size_t count) {
  constexpr size_t kPiece = 2048;
  for (size_t at = 0; at < count; at += kPiece) {
    const size_t length = HWY_MIN(kPiece, count - at);
    std::memset(out + at, 0, length * sizeof(float));
    for (size_t t = 0, together; t < terms.size(); t += together) {
      const bool is_bf16 = terms[t].is_bf16;
      const size_t most = HWY_MIN(kTogether, terms.size() - t);
      for (together = 1; together < most && terms[t + together].is_bf16 == is_bf16;) ++together;
      if (is_bf16)
        add_some<true>(&terms[t], together, at, length, out + at);
      else
        add_some<false>(&terms[t], together, at, length, out + at);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(dense_axpy_loop);
HWY_EXPORT(dense_merge_loop);

void dense_axpy(const DenseTerm& term, float* y, size_t count) {
  HWY_DYNAMIC_DISPATCH(dense_axpy_loop)(term, y, count);
}
void dense_merge(std::span<const DenseTerm> terms, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(dense_merge_loop)(terms, out, count);
}

}  // namespace starling
#endif  // HWY_ONCE
