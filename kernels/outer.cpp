#include "kernels/outer.h"

#include <algorithm>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/outer.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

// Whole vectors, then lane by lane. `step` returns the largest magnitude's bits of what it computed.
template <class Step>
HWY_INLINE bool all_finite(size_t count, const Step& step) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const hn::RebindToSigned<decltype(d)> di;
  auto largest = hn::Zero(di);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) largest = hn::Max(largest, step(d, i));
  int32_t most = max_lane(di, largest);
  for (; i < count; ++i) most = HWY_MAX(most, hn::GetLane(step(d1, i)));
  return most <= 0x7F7FFFFF;
}

template <class D>
struct Stepped {
  hn::Vec<D> m, r;
};

template <class D>
HWY_INLINE Stepped<D> nesterov_vector(D d, const NesterovStep& step, const float* v, const float* m, const float* r) {
  const auto momentum = hn::Set(d, step.momentum);
  const auto value = hn::Mul(hn::Set(d, step.factor), load_next(d, v));
  const auto next = hn::Add(hn::Mul(momentum, load_next(d, m)), value);
  const auto ahead = hn::Add(value, hn::Mul(momentum, next));
  return {next, hn::Add(load_next(d, r), hn::Mul(hn::Set(d, step.rate), ahead))};
}

bool axpy_is_finite_loop(float a, const float* x, const float* y, size_t count) {
  return all_finite(count, [&](auto d, size_t i) HWY_ATTR {
    return magnitude_bits(d, hn::Add(load_next(d, y + i), hn::Mul(hn::Set(d, a), load_next(d, x + i))));
  });
}

bool nesterov_is_finite_loop(const NesterovStep& step, const float* v, const float* m, const float* r, size_t count) {
  return all_finite(count, [&](auto d, size_t i) HWY_ATTR {
    const auto stepped = nesterov_vector(d, step, v + i, m + i, r + i);
    return hn::Max(magnitude_bits(d, stepped.m), magnitude_bits(d, stepped.r));
  });
}

void nesterov_loop(const NesterovStep& step, const float* v, float* m, float* r, size_t count) {
  for_each_vector<float>(count, [&](auto d, size_t i) HWY_ATTR {
    const auto stepped = nesterov_vector(d, step, v + i, m + i, r + i);
    hn::StoreU(stepped.m, d, m + i);
    hn::StoreU(stepped.r, d, r + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(axpy_is_finite_loop);
HWY_EXPORT(nesterov_is_finite_loop);
HWY_EXPORT(nesterov_loop);

bool axpy_is_finite(float a, const float* x, const float* y, size_t count) {
  return HWY_DYNAMIC_DISPATCH(axpy_is_finite_loop)(a, x, y, count);
}
bool nesterov_is_finite(const NesterovStep& step, const float* v, const float* m, const float* r, size_t count) {
  return HWY_DYNAMIC_DISPATCH(nesterov_is_finite_loop)(step, v, m, r, count);
}
void nesterov(const NesterovStep& step, const float* v, float* m, float* r, size_t count) {
  HWY_DYNAMIC_DISPATCH(nesterov_loop)(step, v, m, r, count);
}

}  // namespace starling
#endif  // HWY_ONCE
