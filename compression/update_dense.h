// The dense update codecs, fp32 and bf16: a payload holds every element of the slice, an entry too. With fp32 nothing
// stays in the accumulator; with bf16 what rounding took stays (half to even, never to an infinity). An entry's own
// rounding is lost, for all members alike. Zeros alone are one zero byte. At the end of a run members submit nothing,
// until all have heard it of all.
#pragma once

#include "compression/update_codec.h"
#include "compression/update_values.h"

namespace starling {

template <class Values>
class DenseUpdate final : public UpdateCodec {
 public:
  explicit DenseUpdate(UpdateKind kind) : kind_(kind) {}

  UpdateKind kind() const override { return kind_; }
  UpdateResidual residual() const override { return {.rounding = Values::kRounding, .energy = Values::kRounding}; }
  size_t bytes_max(UpdateRole, size_t element_count) const override { return element_count * Values::kBytes; }
  [[nodiscard]] std::optional<size_t> encode_chosen(UpdateRole role, std::span<const float> x, const UpdateSeeds& seeds,
                                                    const UpdateSupport& chosen, MutableBytes out) const override;
  UpdateStatus check(UpdateRole role, Bytes payload, size_t element_count) const override;
  void add(float coefficient, Bytes payload, const UpdateSupport& on, std::span<float> target) const override;
  void decode_part(Bytes payload, const UpdateSupport& support, size_t begin, std::span<float> out) const override;
  UpdateSupport support(Bytes) const override { return {}; }
  double norm(Bytes payload) const override;
  std::optional<double> checked_norm(UpdateRole role, Bytes payload, size_t element_count) const override;
  void merge(std::span<const UpdateTerm> terms, std::span<float> sum) const override;

 private:
  UpdateKind kind_;
};

}  // namespace starling
