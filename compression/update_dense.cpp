#include "compression/update_dense.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/check.h"
#include "kernels/dense.h"
#include "kernels/vector_ops.h"

namespace starling {
namespace {

// A payload of values is longer.
bool is_zeros(Bytes payload) { return payload.size() == 1 && payload[0] == std::byte{0}; }

bool is_zeros(std::span<const float> x) {
  return !x.empty() && std::all_of(x.begin(), x.end(), [](float value) { return value == 0; });
}

}  // namespace

template <class Values>
std::optional<size_t> DenseUpdate<Values>::encode_chosen(UpdateRole role, std::span<const float> x, const UpdateSeeds&,
                                                         const UpdateSupport&, MutableBytes out) const {
  STARLING_CHECK(out.size() == bytes_max(role, x.size()));
  if (is_zeros(x)) {
    out[0] = std::byte{0};
    return 1;
  }
  if (!Values::kWrite(x.data(), x.size(), out.data())) return std::nullopt;
  return out.size();
}

template <class Values>
UpdateStatus DenseUpdate<Values>::check(UpdateRole role, Bytes payload, size_t element_count) const {
  if (is_zeros(payload) && element_count > 0) return UpdateStatus::kOk;
  if (payload.size() != bytes_max(role, element_count)) return UpdateStatus::kWrongSize;
  return Values::kAllFinite(payload.data(), element_count) ? UpdateStatus::kOk : UpdateStatus::kNonFinite;
}

template <class Values>
void DenseUpdate<Values>::add(float coefficient, Bytes payload, const UpdateSupport& on,
                              std::span<float> target) const {
  if (is_zeros(payload)) return;
  STARLING_CHECK(payload.size() == target.size() * Values::kBytes);
  if (!on.everywhere) {
    for (const uint32_t i : on.indices) {
      STARLING_CHECK(i < target.size());
      target[i] += coefficient * Values::read_one(payload.data() + i * Values::kBytes);
    }
    return;
  }
  dense_axpy({coefficient, payload.data(), Values::kIsBf16}, target.data(), target.size());
}

template <class Values>
void DenseUpdate<Values>::decode_part(Bytes payload, const UpdateSupport&, size_t begin, std::span<float> out) const {
  if (is_zeros(payload)) return std::fill(out.begin(), out.end(), 0.0f);
  STARLING_CHECK((begin + out.size()) * Values::kBytes <= payload.size());
  Values::read(payload.data() + begin * Values::kBytes, out.size(), out.data());
}

template <class Values>
double DenseUpdate<Values>::norm(Bytes payload) const {
  if (is_zeros(payload)) return 0;
  std::array<float, kUpdatePiece> values;
  double squares = 0;
  const size_t element_count = payload.size() / Values::kBytes;
  for (size_t at = 0; at < element_count; at += kUpdatePiece) {
    const size_t count = std::min(kUpdatePiece, element_count - at);
    squares += squared_norm(Values::view(payload.data() + at * Values::kBytes, count, values.data()), count);
  }
  return std::sqrt(squares);
}

template <class Values>
std::optional<double> DenseUpdate<Values>::checked_norm(UpdateRole role, Bytes payload, size_t element_count) const {
  if (payload.size() != bytes_max(role, element_count)) {
    return is_zeros(payload) && element_count > 0 ? std::optional(0.0) : std::nullopt;
  }
  const double found = norm(payload);
  return std::isfinite(found) ? std::optional(found) : std::nullopt;
}

template <class Values>
void DenseUpdate<Values>::merge(std::span<const UpdateTerm> terms, std::span<float> sum) const {
  const auto is_dense = [](const UpdateTerm& term) {
    return term.codec->kind() == UpdateKind::kFp32 || term.codec->kind() == UpdateKind::kBf16;
  };
  if (!std::all_of(terms.begin(), terms.end(), is_dense)) return UpdateCodec::merge(terms, sum);
  std::vector<DenseTerm> added;
  for (const auto& [codec, weight, payload] : terms) {
    if (is_zeros(payload)) continue;
    const bool is_bf16 = codec->kind() == UpdateKind::kBf16;
    STARLING_CHECK(payload.size() == sum.size() * (is_bf16 ? Bf16Values::kBytes : Fp32Values::kBytes));
    added.push_back({weight, payload.data(), is_bf16});
  }
  dense_merge(added, sum.data(), sum.size());
}

template class DenseUpdate<Fp32Values>;
template class DenseUpdate<Bf16Values>;

}  // namespace starling
