// A payload of some elements of a slice: which ones, and their values. What was not sent stays in the accumulator.
//
// Little-endian:
//   0    u32 m, how many, and in its two upper bits how the indices lie:
//          0   m times u32, ascending, from byte 4 on
//          1   u32 bits, u32 unary bytes, then both streams of kernels/rice.h: from kRiceElementsMin elements on
//          2   retired
//   then the values in the indices' order, as update_values.h has them
// Without m a payload cut short could pass, with indices read as values.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "compression/update_codec.h"
#include "compression/update_values.h"
#include "kernels/sparse.h"
#include "kernels/sparse_index.h"

namespace starling {

inline constexpr size_t kRiceElementsMin = 65536;  // smaller slices have payloads of a few hundred bytes

// Where the parts of a payload lie.
class SparseParts {
 public:
  // REQUIRES: the payload passed check_indices().
  explicit SparseParts(Bytes payload);

  size_t count() const { return count_; }
  const std::byte* values() const { return values_; }
  // u32 each, ascending; of this object or of the payload.
  const std::byte* indices() const { return own_.empty() ? plain_ : reinterpret_cast<const std::byte*>(own_.data()); }
  UpdateSupport support() const;

  // Are the indices those of at most count_max elements of a slice? `rest`: bytes of the values.
  static UpdateStatus check_indices(Bytes payload, size_t count_max, size_t element_count, size_t* count, size_t* rest);

 private:
  size_t count_ = 0;
  const std::byte* plain_ = nullptr;
  std::vector<uint32_t> own_;
  const std::byte* values_ = nullptr;
};

// Of the header and the indices, at most. count_max: by which Rice's bits are chosen.
size_t sparse_index_bytes_max(size_t count_max, size_t element_count);
// Writes header and indices and returns their bytes.
size_t write_sparse_indices(std::span<const uint32_t> indices, size_t count_max, size_t element_count, std::byte* out);

// The `count` elements of largest magnitude, ascending; fewer if the others are zero. nullopt: x is not finite.
std::optional<std::vector<uint32_t>> largest_elements(std::span<const float> x, size_t count);

// A codec of payloads that hold some of the elements, apart from the format of their values.
class SparseCodec : public UpdateCodec {
 public:
  // How many elements a payload holds at most.
  virtual size_t elements_max(UpdateRole role, size_t element_count) const = 0;
  // The payload of these elements, ascending, at most elements_max(). REQUIRES: as encode(); finite values.
  virtual size_t write(UpdateRole role, size_t element_count, std::span<const uint32_t> indices,
                       std::span<const float> values, const UpdateSeeds& seeds, MutableBytes out) const = 0;
  // Of all elements that it holds.
  virtual void read_values(const SparseParts& payload, std::span<float> out) const = 0;
};

// What topk, dgc and sketch share: everything but the choice of elements.
template <class Values>
class SparseUpdate : public SparseCodec {
 public:
  explicit SparseUpdate(const UpdateOptions& options) : options_(options) {}

  UpdateKind kind() const override { return options_.kind; }
  size_t bytes_max(UpdateRole role, size_t element_count) const override;
  [[nodiscard]] std::optional<UpdateSupport> choose(UpdateRole role, std::span<const float> x,
                                                    const UpdateSeeds& seeds) const override;
  [[nodiscard]] std::optional<size_t> encode_chosen(UpdateRole role, std::span<const float> x, const UpdateSeeds& seeds,
                                                    const UpdateSupport& chosen, MutableBytes out) const override;
  UpdateStatus check(UpdateRole role, Bytes payload, size_t element_count) const override;
  void add(float coefficient, Bytes payload, const UpdateSupport& on, std::span<float> target) const override;
  void decode_part(Bytes payload, const UpdateSupport& support, size_t begin, std::span<float> out) const override;
  UpdateSupport support(Bytes payload) const override { return SparseParts(payload).support(); }
  double norm(Bytes payload) const override;
  size_t write(UpdateRole role, size_t element_count, std::span<const uint32_t> indices, std::span<const float> values,
               const UpdateSeeds& seeds, MutableBytes out) const override;
  void read_values(const SparseParts& payload, std::span<float> out) const override;

 protected:
  // For how many elements the indices of a payload of `count` are coded, at least `count`.
  virtual size_t coded_for(UpdateRole role, size_t element_count, [[maybe_unused]] size_t count) const {
    return elements_max(role, element_count);
  }
  // Ascending, at most elements_max(); nullopt: x is not finite.
  virtual std::optional<std::vector<uint32_t>> choose_indices(UpdateRole role, std::span<const float> x,
                                                              const UpdateSeeds& seeds) const = 0;
  static size_t share(double density, size_t element_count);  // rounded up
  size_t share(size_t element_count) const { return share(options_.density, element_count); }
  const UpdateOptions options_;
};

}  // namespace starling
