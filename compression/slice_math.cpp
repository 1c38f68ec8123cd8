#include "compression/slice_math.h"

#include <algorithm>
#include <array>
#include <vector>

#include "compression/update_values.h"
#include "kernels/cast.h"
#include "kernels/check.h"
#include "kernels/outer.h"
#include "kernels/pair.h"
#include "kernels/vector_ops.h"

namespace starling {
namespace {

const std::byte* bytes_of(std::span<const float> x) { return std::as_bytes(x).data(); }

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

void SliceMath::copy(std::span<const float> from, std::span<float> to) const {
  STARLING_CHECK(from.size() == to.size());
  std::copy(from.begin(), from.end(), to.begin());
}

void SliceMath::clear(std::span<float> x) const { std::fill(x.begin(), x.end(), 0.0f); }

void SliceMath::add(std::span<const float> x, std::span<float> y) const { axpy(1, x.data(), y.data(), y.size()); }

void SliceMath::add_change(float scale, std::span<const float> from, std::span<const float> to,
                           std::span<float> y) const {
  pair_apply_f32(scale, bytes_of(from), bytes_of(to), y.size(), y.data());
}

void SliceMath::add_change_from_host(std::span<const float> from, std::span<const float> to, std::span<float> y) const {
  SliceMath::add_change(1, from, to, y);
}

bool SliceMath::all_finite(std::span<const float> x) const { return all_finite_f32(bytes_of(x), x.size()); }

float SliceMath::max_abs(std::span<const float> x) const { return starling::max_abs(x.data(), x.size()); }

double SliceMath::squared_norm(std::span<const float> x) const { return starling::squared_norm(x.data(), x.size()); }

std::optional<UpdateSupport> SliceMath::choose(const UpdateCodec& codec, std::span<const float> x,
                                               const UpdateSeeds& seeds) const {
  return codec.choose(UpdateRole::kContribution, x, seeds);
}

std::optional<size_t> SliceMath::encode_chosen(const UpdateCodec& codec, std::span<const float> x,
                                               const UpdateSeeds& seeds, const UpdateSupport& chosen,
                                               MutableBytes out) const {
  return codec.encode_chosen(UpdateRole::kContribution, x, seeds, chosen, out);
}

std::optional<size_t> SliceMath::encode_sum(const UpdateCodec& codec, std::span<const UpdateTerm> terms,
                                            size_t element_count, const UpdateSeeds& seeds, MutableBytes out) const {
  std::vector<float> sum(element_count);
  codec.merge(terms, sum);
  return codec.encode(UpdateRole::kEntry, sum, seeds, out);
}

void SliceMath::add_payload(const UpdateCodec& codec, float coefficient, Bytes payload, const UpdateSupport& on,
                            std::span<float> target) const {
  codec.add(coefficient, payload, on, target);
}

void SliceMath::decode(const UpdateCodec& codec, Bytes payload, std::span<float> out) const {
  codec.decode(payload, out);
}

bool SliceMath::entry_fits(const OuterRule& rule, const UpdateCodec& codec, float factor, Bytes entry,
                           std::span<const float> params, std::span<const float> momentum) const {
  const NesterovStep step{.factor = factor, .momentum = rule.momentum, .rate = rule.rate};
  return each_piece(codec, entry, params.size(), [&](size_t at, size_t count, const float* v) {
    if (!rule.has_momentum()) return axpy_is_finite(rule.rate * factor, v, params.data() + at, count);
    return nesterov_is_finite(step, v, momentum.data() + at, params.data() + at, count);
  });
}

void SliceMath::take_entry(const OuterRule& rule, const UpdateCodec& codec, float factor, Bytes entry,
                           std::span<float> params, std::span<float> momentum) const {
  if (!rule.has_momentum()) return codec.add(rule.rate * factor, entry, {}, params);
  const NesterovStep step{.factor = factor, .momentum = rule.momentum, .rate = rule.rate};
  each_piece(codec, entry, params.size(), [&](size_t at, size_t count, const float* v) {
    nesterov(step, v, momentum.data() + at, params.data() + at, count);
    return true;
  });
}

const SliceMath& host_slice_math() {
  static const SliceMath math;
  return math;
}

}  // namespace starling
