#include "compression/outer_rule.h"

#include "compression/slice_math.h"
#include "kernels/check.h"

namespace starling {
namespace {

// The magnitudes that an entry of this norm can make of those in reach. Each operation rounds once, by 2^-24 at most.
OuterReach reach_after(const OuterRule& rule, float factor, double norm, const OuterReach& reach) {
  constexpr double kRounding = 1 + 1e-6;
  const auto momentum = static_cast<double>(rule.momentum), rate = static_cast<double>(rule.rate);
  const double value = kRounding * static_cast<double>(factor) * norm;
  if (!rule.has_momentum()) return {kRounding * (reach.params + rate * value), reach.momentum};
  const double next = kRounding * (momentum * reach.momentum + value);
  return {kRounding * (reach.params + rate * (value + momentum * next)), next};
}

}  // namespace

// Two passes where the first is needed: a step that turns out too large half way could not be taken back exactly.
bool apply_entry(const SliceMath& math, const OuterRule& rule, const UpdateCodec& codec, float factor, Bytes entry,
                 double norm, std::span<float> params, std::span<float> momentum, OuterReach* reach) {
  STARLING_CHECK(momentum.size() == (rule.has_momentum() ? params.size() : 0));
  constexpr double kFar = 1e38;  // below the largest float, 3.4e38, whatever a sum in between adds
  const OuterReach after = reach_after(rule, factor, norm, *reach);
  const bool safe = after.params < kFar && (momentum.empty() || after.momentum < kFar);
  if (!safe && !math.entry_fits(rule, codec, factor, entry, params, momentum)) return false;
  math.take_entry(rule, codec, factor, entry, params, momentum);
  *reach = after;
  if (!safe) {
    reach->params = static_cast<double>(math.max_abs(params));
    if (!momentum.empty()) reach->momentum = static_cast<double>(math.max_abs(momentum));
  }
  return true;
}

}  // namespace starling
