#include "compression/update_topk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/check.h"
#include "kernels/sparse.h"
#include "kernels/sparse_index.h"
#include "kernels/top_k.h"
#include "kernels/vector_ops.h"

namespace starling {
namespace {

template <class Values>
struct Parts {
  static constexpr size_t kHeaderBytes = 4;
  static constexpr size_t bytes_of(size_t count) { return kHeaderBytes + count * (kIndexBytes + Values::kBytes); }

  // REQUIRES: as much of the payload as its header says, at least the header.
  explicit Parts(Bytes payload)
      : count(load_index(payload.data(), 0)),
        indices(payload.data() + kHeaderBytes),
        values(indices + count * kIndexBytes) {}

  // Calls step(first, count, values) piece by piece for the elements begin to end - 1.
  template <class Step>
  void each_piece(size_t begin, size_t end, const Step& step) const {
    std::array<float, kUpdatePiece> piece;
    for (size_t at = begin; at < end; at += kUpdatePiece) {
      const size_t size = std::min(kUpdatePiece, end - at);
      Values::read(values + at * Values::kBytes, size, piece.data());
      step(at, size, piece.data());
    }
  }

  size_t count;
  const std::byte* indices;
  const std::byte* values;
};

}  // namespace

template <class Values>
size_t TopkUpdate<Values>::elements_max(UpdateRole role, size_t element_count) const {
  const auto share = static_cast<size_t>(std::ceil(options_.density * static_cast<double>(element_count)));
  const size_t k = std::min(share, element_count);
  return role == UpdateRole::kContribution ? k : std::min(k * options_.reply, element_count);
}

template <class Values>
size_t TopkUpdate<Values>::bytes_max(UpdateRole role, size_t element_count) const {
  return Parts<Values>::bytes_of(elements_max(role, element_count));
}

template <class Values>
std::optional<size_t> TopkUpdate<Values>::encode(UpdateRole role, std::span<const float> x, uint64_t,
                                                 MutableBytes out) const {
  STARLING_CHECK(out.size() == bytes_max(role, x.size()));
  const size_t k = elements_max(role, x.size());
  std::vector<uint32_t> indices(k);
  TopKScratch scratch;
  const std::optional<size_t> count = top_k(x.data(), x.size(), k, &scratch, indices.data());
  if (!count) return std::nullopt;
  const auto header = static_cast<uint32_t>(*count);
  std::memcpy(out.data(), &header, sizeof header);
  std::byte* const to_indices = out.data() + Parts<Values>::kHeaderBytes;
  std::byte* const to_values = to_indices + *count * kIndexBytes;
  if (*count > 0) std::memcpy(to_indices, indices.data(), *count * kIndexBytes);
  std::array<float, kUpdatePiece> values;
  for (size_t at = 0; at < *count; at += kUpdatePiece) {
    const size_t size = std::min(kUpdatePiece, *count - at);
    gather(x.data(), to_indices + at * kIndexBytes, size, values.data());
    // top_k() found no value that is not finite.
    STARLING_CHECK(Values::kWrite(values.data(), size, to_values + at * Values::kBytes));
  }
  return Parts<Values>::bytes_of(*count);
}

template <class Values>
UpdateStatus TopkUpdate<Values>::check(UpdateRole role, Bytes payload, size_t element_count) const {
  if (payload.size() < Parts<Values>::kHeaderBytes) return UpdateStatus::kWrongSize;
  const Parts<Values> parts(payload);
  if (parts.count > elements_max(role, element_count)) return UpdateStatus::kWrongSize;
  if (payload.size() != parts.bytes_of(parts.count)) return UpdateStatus::kWrongSize;
  if (!indices_ascend_below(parts.indices, parts.count, element_count)) return UpdateStatus::kBadIndex;
  return Values::kAllFinite(parts.values, parts.count) ? UpdateStatus::kOk : UpdateStatus::kNonFinite;
}

template <class Values>
void TopkUpdate<Values>::add(float coefficient, Bytes payload, const UpdateSupport& on,
                             std::span<float> target) const {
  const Parts<Values> parts(payload);
  STARLING_CHECK(parts.count == 0 || load_index(parts.indices, parts.count - 1) < target.size());
  if (on.everywhere) {
    parts.each_piece(0, parts.count, [&](size_t first, size_t size, const float* values) {
      scatter_axpy(coefficient, parts.indices + first * kIndexBytes, values, size, target.data());
    });
    return;
  }
  for (size_t own = 0, entry = 0; own < parts.count && entry < on.indices.size();) {   // both ascend
    const uint32_t i = load_index(parts.indices, own), other = on.indices[entry];
    if (i == other) target[i] += coefficient * Values::read_one(parts.values + own * Values::kBytes);
    own += i <= other;
    entry += other <= i;
  }
}

template <class Values>
void TopkUpdate<Values>::decode_part(Bytes payload, const UpdateSupport&, size_t begin, std::span<float> out) const {
  const Parts<Values> parts(payload);
  std::fill(out.begin(), out.end(), 0.0f);
  const size_t from = indices_below(parts.indices, parts.count, begin);
  const size_t to = indices_below(parts.indices, parts.count, begin + out.size());
  parts.each_piece(from, to, [&](size_t first, size_t size, const float* values) {
    scatter(parts.indices + first * kIndexBytes, values, size, begin, out.data());
  });
}

template <class Values>
UpdateSupport TopkUpdate<Values>::support(Bytes payload) const {
  const Parts<Values> parts(payload);
  UpdateSupport support{.everywhere = false, .indices = std::vector<uint32_t>(parts.count)};
  if (parts.count > 0) std::memcpy(support.indices.data(), parts.indices, parts.count * kIndexBytes);
  return support;
}

template <class Values>
double TopkUpdate<Values>::norm(Bytes payload) const {
  const Parts<Values> parts(payload);
  double squares = 0;
  parts.each_piece(0, parts.count, [&](size_t, size_t size, const float* values) {
    squares += squared_norm(values, size);
  });
  return std::sqrt(squares);
}

template class TopkUpdate<Fp32Values>;
template class TopkUpdate<Bf16Values>;

}  // namespace starling
