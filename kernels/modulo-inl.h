// What the loops of the modulo codecs share, compiled once per instruction set. Include inside a foreach_target file,
// after lanes-inl.h.
#if defined(STARLING_KERNELS_MODULO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_MODULO_INL_H_
#undef STARLING_KERNELS_MODULO_INL_H_
#else
#define STARLING_KERNELS_MODULO_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/modulo_element.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using Codes = hn::Rebind<uint8_t, Floats>;  // as many codes as floats
using Shorts = hn::ScalableTag<int16_t>;
using Pairs = hn::RepartitionToWide<Shorts>;

// Loads as many codes as `d` has lanes, from where they lie apart (8 bits) or in the halves of bytes (4 bits).
template <class D>
HWY_INLINE hn::Vec<D> load_codes(D d, const std::byte* from) {
  return hn::PromoteTo(d, load_bytes(hn::Rebind<uint8_t, D>(), from));
}

// Copies what a step that would reach past the row's end may read; the rest is zero, which adds nothing to any result.
template <class T, size_t kCount>
HWY_INLINE void padded(T (&to)[kCount], const T* from, size_t count) {
  for (T& one : to) one = T{};
  std::memcpy(to, from, count * sizeof(T));
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#endif  // toggle
