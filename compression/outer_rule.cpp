#include "compression/outer_rule.h"

#include <algorithm>
#include <array>

#include "compression/update_values.h"
#include "kernels/check.h"
#include "kernels/outer.h"

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

}  // namespace

// Two passes: a step that turns out too large half way could not be taken back exactly.
bool apply_entry(const OuterRule& rule, const UpdateCodec& codec, float factor, Bytes entry, std::span<float> params,
                 std::span<float> momentum) {
  STARLING_CHECK(momentum.size() == (rule.has_momentum() ? params.size() : 0));
  float* const r = params.data();
  float* const m = momentum.data();
  if (!rule.has_momentum()) {
    const float coefficient = rule.rate * factor;
    const bool fits = each_piece(codec, entry, params.size(), [&](size_t at, size_t count, const float* v) {
      return axpy_is_finite(coefficient, v, r + at, count);
    });
    if (fits) codec.add(coefficient, entry, {}, params);
    return fits;
  }
  const NesterovStep step{.factor = factor, .momentum = rule.momentum, .rate = rule.rate};
  const bool fits = each_piece(codec, entry, params.size(), [&](size_t at, size_t count, const float* v) {
    return nesterov_is_finite(step, v, m + at, r + at, count);
  });
  if (!fits) return false;
  return each_piece(codec, entry, params.size(), [&](size_t at, size_t count, const float* v) {
    nesterov(step, v, m + at, r + at, count);
    return true;
  });
}

}  // namespace starling
