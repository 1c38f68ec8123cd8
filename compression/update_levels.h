// The update codecs of a few levels an element: int8, int4, ternary, sign with error feedback, and the vote of signs.
// Each block of a slice has a scale s, each element a level of it (kernels/levels.h).
//
//   int8, int4   s = max|x| / L, L = 127 or 7: blockwise, stochastic rounding
//   ternary      s = min(max|x|, 2.5 sigma), L = 1: TernGrad (Wen et al. 2017, arXiv:1705.07878), equations 2 and 6,
//                with a scale of each block instead of a scale of all members: its reply is in int8, not in sums of
//                levels, so that nothing would be gained by a common one
//   sign_ef      s = mean|x|, level = sign: EF-signSGD (Karimireddy et al. 2019, arXiv:1901.09847), algorithm 2
//   sign         the same over the whole slice, without memory. An entry is the majority of the signs, and its step the
//                median of their scales: signSGD with majority vote (Bernstein et al. 2019, arXiv:1810.05291)
//
// A payload, little-endian:
//   0              u32 bits of a code, from bit 8 on its levels L: what format follows
//   4              u32 elements of the slice
//   8              fp32 scale, for each block: finite, from 0 to kUpdateScaleMax
//   8 + 4 blocks   codes of each block, each beginning at a byte of its own (kernels/levels.h)
// A scale beyond the maximum is clamped when it is written, so the levels are too: no decoded value leaves the range of
// a float. A scale below kUpdateScaleMin is 0.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "compression/update_codec.h"
#include "compression/update_values.h"
#include "kernels/levels.h"

namespace starling {

struct LevelFormat {
  enum class Scale { kLargest, kClipped, kMean };
  LevelCodes codes;
  size_t block = 0;  // elements that share a scale, whole groups of codes; 0: the slice
  Scale scale = Scale::kLargest;
};

class LevelUpdate : public UpdateCodec {
 public:
  // The formats of contributions and of entries differ in bits or levels, or only in how the scale is chosen.
  LevelUpdate(UpdateKind kind, const LevelFormat& contribution, const LevelFormat& entry,
              const UpdateResidual& residual)
      : kind_(kind), contribution_(contribution), entry_(entry), residual_(residual) {}

  UpdateKind kind() const override { return kind_; }
  UpdateResidual residual() const override { return residual_; }
  size_t bytes_max(UpdateRole role, size_t element_count) const override;
  [[nodiscard]] std::optional<size_t> encode_chosen(UpdateRole role, std::span<const float> x, const UpdateSeeds& seeds,
                                                    const UpdateSupport& chosen, MutableBytes out) const override;
  UpdateStatus check(UpdateRole role, Bytes payload, size_t element_count) const override;
  void add(float coefficient, Bytes payload, const UpdateSupport& on, std::span<float> target) const override;
  void decode_part(Bytes payload, const UpdateSupport& support, size_t begin, std::span<float> out) const override;
  UpdateSupport support(Bytes) const override { return {}; }
  double norm(Bytes payload) const override;
  void merge(std::span<const UpdateTerm> terms, std::span<float> sum) const override;

  // Where the parts of a payload lie.
  struct Parts;
  Parts parts_of(Bytes payload) const;  // REQUIRES: it passed check()
  // Writes all but the scales and the codes. REQUIRES: as encode().
  Parts begin_payload(UpdateRole role, size_t element_count, MutableBytes out) const;

 private:
  const UpdateKind kind_;
  const LevelFormat contribution_, entry_;
  const UpdateResidual residual_;
};

struct LevelUpdate::Parts {
  Parts(const LevelFormat& chosen, const std::byte* bytes, size_t element_count);

  size_t length(size_t b) const { return std::min(block, count - b * block); }
  const std::byte* codes_of(size_t b) const { return codes + b * format.codes.bytes(block); }
  bool is_like(const Parts& other) const;
  float value(size_t i) const;

  const LevelFormat& format;
  size_t count, block, blocks;
  const std::byte* scales;
  const std::byte* codes;
};

// Of a block: its outermost level stands for so much. nullopt: that is not finite.
std::optional<float> level_scale(const LevelCodes& codes, double outermost);

// The vote. Members count equally: REQUIRES: merges with equal masses.
class SignVote final : public LevelUpdate {
 public:
  using LevelUpdate::LevelUpdate;
  void merge(std::span<const UpdateTerm> terms, std::span<float> sum) const override;
};

// REQUIRES: the kind is one of the five above.
std::unique_ptr<UpdateCodec> make_level_update(const UpdateOptions& options);

}  // namespace starling
