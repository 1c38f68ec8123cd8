#include "compression/outer_rule.h"

#include <algorithm>
#include <array>

#include "compression/update_values.h"
#include "kernels/check.h"
#include "kernels/outer.h"
#include "kernels/vector_ops.h"

namespace starling {
namespace {

// Decodes the entry piece by piece and calls step(begin, count, values) until one returns false.
template <class Step>
bool each_piece(const UpdateCodec& codec, Bytes entry, size_t element_count, const Step& step) {
  const UpdateSupport support = codec.support(entry);
  std::array<float, kUpdatePiece> values;
  for (size_t at = 0; at < element_count; at += kUpdatePiece) {
    const size_t count = std::min(kUpdatePiece, element_count - at);
    codec.decode_part(entry, support, at, std::span(values).first(count));
    if (!step(at, count, values.data())) return false;
  }
  return true;
}

// The magnitudes that an entry of this norm can make of those in reach. Each operation rounds once, by 2^-24 at most.
OuterReach reach_after(const OuterRule& rule, float factor, double norm, const OuterReach& reach) {
  constexpr double kRounding = 1 + 1e-6;
  const auto momentum = static_cast<double>(rule.momentum), rate = static_cast<double>(rule.rate);
  const double value = kRounding * static_cast<double>(factor) * norm;
  if (!rule.has_momentum()) return {kRounding * (reach.params + rate * value), reach.momentum};
  const double next = kRounding * (momentum * reach.momentum + value);
  return {kRounding * (reach.params + rate * (value + momentum * next)), next};
}

bool fits(const OuterRule& rule, const UpdateCodec& codec, float factor, Bytes entry, std::span<const float> params,
          std::span<const float> momentum) {
  const NesterovStep step{.factor = factor, .momentum = rule.momentum, .rate = rule.rate};
  return each_piece(codec, entry, params.size(), [&](size_t at, size_t count, const float* v) {
    if (!rule.has_momentum()) return axpy_is_finite(rule.rate * factor, v, params.data() + at, count);
    return nesterov_is_finite(step, v, momentum.data() + at, params.data() + at, count);
  });
}

void take(const OuterRule& rule, const UpdateCodec& codec, float factor, Bytes entry, std::span<float> params,
          std::span<float> momentum) {
  if (!rule.has_momentum()) return codec.add(rule.rate * factor, entry, {}, params);
  const NesterovStep step{.factor = factor, .momentum = rule.momentum, .rate = rule.rate};
  each_piece(codec, entry, params.size(), [&](size_t at, size_t count, const float* v) {
    nesterov(step, v, momentum.data() + at, params.data() + at, count);
    return true;
  });
}

}  // namespace

// Two passes where the first is needed: a step that turns out too large half way could not be taken back exactly.
bool apply_entry(const OuterRule& rule, const UpdateCodec& codec, float factor, Bytes entry, double norm,
                 std::span<float> params, std::span<float> momentum, OuterReach* reach) {
  STARLING_CHECK(momentum.size() == (rule.has_momentum() ? params.size() : 0));
  constexpr double kFar = 1e38;  // below the largest float, 3.4e38, whatever a sum in between adds
  const OuterReach after = reach_after(rule, factor, norm, *reach);
  const bool safe = after.params < kFar && (momentum.empty() || after.momentum < kFar);
  if (!safe && !fits(rule, codec, factor, entry, params, momentum)) return false;
  take(rule, codec, factor, entry, params, momentum);
  *reach = after;
  if (!safe) {
    reach->params = static_cast<double>(max_abs(params.data(), params.size()));
    if (!momentum.empty()) reach->momentum = static_cast<double>(max_abs(momentum.data(), momentum.size()));
  }
  return true;
}

}  // namespace starling
