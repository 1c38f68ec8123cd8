// The topk update codecs: the k elements of largest magnitude, of equal ones those with the lower index, never zeros.
// What was not sent stays in the accumulator and grows there until it is among the largest.
//
// A payload holds at most k elements (a contribution) or reply * k (an entry), where k is the density's share of the
// slice rounded up. Little-endian:
//   0         u32 m, how many: without it a payload cut short could pass, with indices read as values
//   4         u32 index, m times: ascending, below the slice's element count
//   4 + 4 m   value, m times: fp32 or bf16, finite, in the indices' order
// An entry holds the largest elements of the sum only: what members sent elsewhere returns to them,
// because they settle on the entry's support alone. So entries do not grow with the members.
#pragma once

#include "compression/update_codec.h"
#include "compression/update_values.h"

namespace starling {

template <class Values>
class TopkUpdate final : public UpdateCodec {
 public:
  explicit TopkUpdate(const UpdateOptions& options) : options_(options) {}

  UpdateKind kind() const override { return options_.kind; }
  UpdateResidual residual() const override {
    return {.rounding = Values::kRounding, .unsent = true, .energy = 1 - options_.density * (1 - Values::kRounding)};
  }
  size_t bytes_max(UpdateRole role, size_t element_count) const override;
  [[nodiscard]] std::optional<size_t> encode(UpdateRole role, std::span<const float> x, uint64_t rng_seed,
                                             MutableBytes out) const override;
  UpdateStatus check(UpdateRole role, Bytes payload, size_t element_count) const override;
  void add(float coefficient, Bytes payload, const UpdateSupport& on, std::span<float> target) const override;
  void decode_part(Bytes payload, const UpdateSupport& support, size_t begin,
                   std::span<float> out) const override;
  UpdateSupport support(Bytes payload) const override;
  double norm(Bytes payload) const override;

 private:
  size_t elements_max(UpdateRole role, size_t element_count) const;

  UpdateOptions options_;
};

}  // namespace starling
