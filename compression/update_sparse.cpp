#include "compression/update_sparse.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/check.h"
#include "kernels/rice.h"
#include "kernels/top_k.h"

namespace starling {
namespace {

constexpr size_t kHeaderBytes = 4, kCodedHeaderBytes = 12;
constexpr uint32_t kCountMask = (1u << 30) - 1;

uint32_t word(Bytes payload, size_t i) { return load_index(payload.data(), i); }

enum class Format : uint32_t { kPlain = 0, kRice = 1 };
Format format_of(Bytes payload) { return static_cast<Format>(word(payload, 0) >> 30); }
Format format_of(size_t element_count) { return element_count < kRiceElementsMin ? Format::kPlain : Format::kRice; }

void put_words(std::initializer_list<uint32_t> words, std::byte* out) {
  for (const uint32_t value : words) out = std::copy_n(reinterpret_cast<const std::byte*>(&value), 4, out);
}

}  // namespace

size_t sparse_index_bytes_max(size_t count_max, size_t element_count) {
  if (format_of(element_count) == Format::kPlain) return kHeaderBytes + count_max * kIndexBytes;
  return kCodedHeaderBytes + rice_bytes_max(count_max, element_count, rice_bits(count_max, element_count));
}

size_t write_sparse_indices(std::span<const uint32_t> indices, size_t count_max, size_t element_count, std::byte* out) {
  const auto count = static_cast<uint32_t>(indices.size());
  const Format format = format_of(element_count);
  const uint32_t head = count | static_cast<uint32_t>(format) << 30;
  if (format == Format::kPlain) {
    put_words({head}, out);
    if (count > 0) std::memcpy(out + kHeaderBytes, indices.data(), indices.size_bytes());
    return kHeaderBytes + indices.size_bytes();
  }
  const unsigned bits = rice_bits(count_max, element_count);
  const size_t unary = rice_encode(indices.data(), count, bits, out + kCodedHeaderBytes);
  put_words({head, bits, static_cast<uint32_t>(unary)}, out);
  return kCodedHeaderBytes + rice_low_bytes(count, bits) + unary;
}

SparseParts::SparseParts(Bytes payload) : count_(word(payload, 0) & kCountMask), plain_(payload.data() + kHeaderBytes) {
  if (format_of(payload) == Format::kPlain) {
    values_ = plain_ + count_ * kIndexBytes;
  } else {
    const unsigned bits = word(payload, 1);
    const size_t unary = word(payload, 2);
    own_.resize(count_);
    STARLING_CHECK(rice_decode(payload.data() + kCodedHeaderBytes, unary, count_, bits, size_t{1} << 32, own_.data()));
    values_ = payload.data() + kCodedHeaderBytes + rice_low_bytes(count_, bits) + unary;
  }
}

UpdateSupport SparseParts::support() const {
  UpdateSupport support{.everywhere = false, .indices = own_};
  if (!own_.empty() || count_ == 0) return support;
  support.indices.resize(count_);
  std::memcpy(support.indices.data(), plain_, count_ * kIndexBytes);
  return support;
}

UpdateStatus SparseParts::check_indices(Bytes payload, size_t count_max, size_t element_count, size_t* count,
                                        size_t* rest) {
  const Format format = format_of(element_count);
  const size_t header = format == Format::kPlain ? kHeaderBytes : kCodedHeaderBytes;
  if (payload.size() < header || format_of(payload) != format) return UpdateStatus::kWrongSize;
  *count = word(payload, 0) & kCountMask;
  if (*count > count_max) return UpdateStatus::kWrongSize;
  const size_t left = payload.size() - header;
  if (format == Format::kPlain) {
    if (*count * kIndexBytes > left) return UpdateStatus::kWrongSize;
    *rest = left - *count * kIndexBytes;
    const bool good = indices_ascend_below(payload.data() + header, *count, element_count);
    return good ? UpdateStatus::kOk : UpdateStatus::kBadIndex;
  }
  const unsigned bits = word(payload, 1);
  const size_t unary = word(payload, 2);
  if (bits != rice_bits(count_max, element_count)) return UpdateStatus::kWrongSize;
  const size_t streams = rice_low_bytes(*count, bits) + unary;
  if (streams > left) return UpdateStatus::kWrongSize;
  *rest = left - streams;
  std::vector<uint32_t> indices(*count);
  const bool good = rice_decode(payload.data() + header, unary, *count, bits, element_count, indices.data());
  return good ? UpdateStatus::kOk : UpdateStatus::kBadIndex;
}

// ---- the codec ----

std::optional<std::vector<uint32_t>> largest_elements(std::span<const float> x, size_t count) {
  std::vector<uint32_t> indices(count);
  TopKScratch scratch;
  const std::optional<size_t> found = top_k(x.data(), x.size(), count, &scratch, indices.data());
  if (!found) return std::nullopt;
  indices.resize(*found);
  return indices;
}

template <class Values>
size_t SparseUpdate<Values>::share(double density, size_t element_count) {
  const auto wanted = static_cast<size_t>(std::ceil(density * static_cast<double>(element_count)));
  return std::min({wanted, element_count, size_t{kCountMask}});
}

template <class Values>
size_t SparseUpdate<Values>::bytes_max(UpdateRole role, size_t element_count) const {
  const size_t count = elements_max(role, element_count);
  return sparse_index_bytes_max(count, element_count) + Values::bytes(count);
}

template <class Values>
std::optional<UpdateSupport> SparseUpdate<Values>::choose(UpdateRole role, std::span<const float> x,
                                                          const UpdateSeeds& seeds) const {
  std::optional<std::vector<uint32_t>> indices = choose_indices(role, x, seeds);
  if (!indices) return std::nullopt;
  return UpdateSupport{.everywhere = false, .indices = std::move(*indices)};
}

template <class Values>
std::optional<size_t> SparseUpdate<Values>::encode_chosen(UpdateRole role, std::span<const float> x,
                                                          const UpdateSeeds& seeds, const UpdateSupport& chosen,
                                                          MutableBytes out) const {
  STARLING_CHECK(!chosen.everywhere);
  std::vector<float> values(chosen.indices.size());
  gather(x.data(), reinterpret_cast<const std::byte*>(chosen.indices.data()), values.size(), values.data());
  return write(role, x.size(), chosen.indices, values, seeds, out);
}

template <class Values>
size_t SparseUpdate<Values>::write(UpdateRole role, size_t element_count, std::span<const uint32_t> indices,
                                   std::span<const float> values, const UpdateSeeds& seeds, MutableBytes out) const {
  const size_t count = indices.size();
  STARLING_CHECK(out.size() == bytes_max(role, element_count) && values.size() == count);
  STARLING_CHECK(count <= elements_max(role, element_count));
  const size_t front = write_sparse_indices(indices, coded_for(role, element_count, count), element_count, out.data());
  for (size_t at = 0; at < count; at += kUpdatePiece) {
    const size_t size = std::min(kUpdatePiece, count - at);
    // choose() found no value that is not finite.
    STARLING_CHECK(Values::write(out.data() + front, count, at, values.data() + at, size, seeds.own));
  }
  return front + Values::bytes(count);
}

template <class Values>
void SparseUpdate<Values>::read_values(const SparseParts& payload, std::span<float> out) const {
  STARLING_CHECK(out.size() == payload.count());
  Values::read(payload.values(), out.size(), 0, out.size(), out.data());
}

template <class Values>
UpdateStatus SparseUpdate<Values>::check(UpdateRole role, Bytes payload, size_t element_count) const {
  if (payload.size() > bytes_max(role, element_count)) return UpdateStatus::kWrongSize;
  size_t count = 0, rest = 0;
  const size_t claimed = payload.size() < kHeaderBytes ? 0 : word(payload, 0) & kCountMask;
  const size_t count_max = coded_for(role, element_count, claimed);
  const UpdateStatus status = SparseParts::check_indices(payload, count_max, element_count, &count, &rest);
  // Sizes first: a payload of another size has other bytes where its indices would be.
  if (status == UpdateStatus::kWrongSize || rest != Values::bytes(count)) return UpdateStatus::kWrongSize;
  if (status != UpdateStatus::kOk) return status;
  return Values::valid(payload.data() + payload.size() - rest, count) ? UpdateStatus::kOk : UpdateStatus::kNonFinite;
}

template <class Values>
void SparseUpdate<Values>::add(float coefficient, Bytes payload, const UpdateSupport& on,
                               std::span<float> target) const {
  const SparseParts parts(payload);
  const std::byte* const indices = parts.indices();
  const size_t count = parts.count();
  STARLING_CHECK(count == 0 || load_index(indices, count - 1) < target.size());
  if (on.everywhere) {
    std::array<float, kUpdatePiece> values;
    for (size_t at = 0; at < count; at += kUpdatePiece) {
      const size_t size = std::min(kUpdatePiece, count - at);
      Values::read(parts.values(), count, at, size, values.data());
      scatter_axpy(coefficient, indices + at * kIndexBytes, values.data(), size, target.data());
    }
    return;
  }
  for (size_t own = 0, entry = 0; own < count && entry < on.indices.size();) {  // both ascend
    const uint32_t i = load_index(indices, own), other = on.indices[entry];
    if (i == other) target[i] += coefficient * Values::read_one(parts.values(), count, own);
    own += i <= other;
    entry += other <= i;
  }
}

template <class Values>
void SparseUpdate<Values>::decode_part(Bytes payload, const UpdateSupport& support, size_t begin,
                                       std::span<float> out) const {
  std::fill(out.begin(), out.end(), 0.0f);
  const auto* indices = reinterpret_cast<const std::byte*>(support.indices.data());
  const size_t count = support.indices.size();
  const size_t from = indices_below(indices, count, begin), to = indices_below(indices, count, begin + out.size());
  const std::byte* const values = payload.data() + payload.size() - Values::bytes(count);
  std::array<float, kUpdatePiece> piece;
  for (size_t at = from; at < to; at += kUpdatePiece) {
    const size_t size = std::min(kUpdatePiece, to - at);
    Values::read(values, count, at, size, piece.data());
    scatter(indices + at * kIndexBytes, piece.data(), size, begin, out.data());
  }
}

template <class Values>
double SparseUpdate<Values>::norm(Bytes payload) const {
  const size_t count = word(payload, 0) & kCountMask;
  const std::byte* const values = payload.data() + payload.size() - Values::bytes(count);
  std::array<float, kUpdatePiece> piece;
  double squares = 0;
  for (size_t at = 0; at < count; at += kUpdatePiece) {
    const size_t size = std::min(kUpdatePiece, count - at);
    Values::read(values, count, at, size, piece.data());
    squares += squared_norm(piece.data(), size);
  }
  return std::sqrt(squares);
}

template class SparseUpdate<PlainValues<Fp32Values>>;
template class SparseUpdate<PlainValues<Bf16Values>>;
template class SparseUpdate<Int8Values>;

}  // namespace starling
