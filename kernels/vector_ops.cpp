#include "kernels/vector_ops.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector_ops.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {

void axpy_loop(float a, const float* x, float* y, size_t count) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, a);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto product = hn::Mul(factor, load_next(d, x + i));
    hn::StoreU(hn::Add(load_next(d, y + i), product), d, y + i);
  }
  for (; i < count; ++i) y[i] += a * x[i];
}

double squared_norm_loop(const float* x, size_t count) {
  SquareSums sums;
  const SquareSums::Narrow d;
  const auto add_group = [&](const float* from) HWY_ATTR {
    STARLING_UNROLL for (size_t v = 0; v < SquareSums::kSteps; ++v)
        sums.add(v, load_next(d, from + v * SquareSums::kStep));
  };
  size_t i = 0;
  for (; i + SquareSums::kGroup <= count; i += SquareSums::kGroup) add_group(x + i);
  if (i < count) {
    float tail[SquareSums::kGroup] = {};
    std::memcpy(tail, x + i, (count - i) * sizeof(float));
    add_group(tail);
  }
  return sums.total();
}

double squared_distance_loop(const float* x, const float* y, size_t count) {
  SquareSums sums;
  const SquareSums::Narrow d;
  const auto add_group = [&](const float* from, const float* to) HWY_ATTR {
    STARLING_UNROLL for (size_t v = 0; v < SquareSums::kSteps; ++v) {
      const size_t at = v * SquareSums::kStep;
      sums.add(v, hn::Sub(load_next(d, to + at), load_next(d, from + at)));
    }
  };
  size_t i = 0;
  for (; i + SquareSums::kGroup <= count; i += SquareSums::kGroup) add_group(x + i, y + i);
  if (i < count) {
    float tail_x[SquareSums::kGroup] = {};
    float tail_y[SquareSums::kGroup] = {};
    std::memcpy(tail_x, x + i, (count - i) * sizeof(float));
    std::memcpy(tail_y, y + i, (count - i) * sizeof(float));
    add_group(tail_x, tail_y);
  }
  return sums.total();
}

size_t count_nonfinite_loop(const float* x, size_t count) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto largest_finite = hn::Set(di, 0x7F7FFFFF);
  size_t i = 0;
  size_t found = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    found += hn::CountTrue(di, hn::Gt(magnitude_bits(d, load_next(d, x + i)), largest_finite));
  }
  for (; i < count; ++i) found += (std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFu) > 0x7F7FFFFFu;
  return found;
}

float max_abs_loop(const float* x, size_t count) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  auto best = hn::Zero(di);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    best = hn::Max(best, magnitude_bits(d, load_next(d, x + i)));
  }
  int32_t bits = max_lane(di, best);
  for (; i < count; ++i) bits = std::max(bits, std::bit_cast<int32_t>(x[i]) & 0x7FFFFFFF);
  return std::bit_cast<float>(bits);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {

HWY_EXPORT(axpy_loop);
HWY_EXPORT(squared_norm_loop);
HWY_EXPORT(squared_distance_loop);
HWY_EXPORT(count_nonfinite_loop);
HWY_EXPORT(max_abs_loop);

void axpy(float a, const float* x, float* y, size_t count) { HWY_DYNAMIC_DISPATCH(axpy_loop)(a, x, y, count); }
double squared_norm(const float* x, size_t count) { return HWY_DYNAMIC_DISPATCH(squared_norm_loop)(x, count); }
double squared_distance(const float* x, const float* y, size_t count) {
  return HWY_DYNAMIC_DISPATCH(squared_distance_loop)(x, y, count);
}
size_t count_nonfinite(const float* x, size_t count) { return HWY_DYNAMIC_DISPATCH(count_nonfinite_loop)(x, count); }
float max_abs(const float* x, size_t count) { return HWY_DYNAMIC_DISPATCH(max_abs_loop)(x, count); }

}  // namespace starling
#endif  // HWY_ONCE
