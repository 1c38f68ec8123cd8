// The sketch update codec: SKETCHED-SGD (Ivkin, Rothchild, Ullah, Braverman, Stoica, Arora 2019, arXiv:1903.04488),
// algorithm 3. Members first send tables (kernels/count_sketch.h) of what they submit. Tables add up, so the
// slice's owner learns which elements of the members' sum are large, without their indices. It asks all members for the
// exact values of `candidates` times as many elements as an entry holds. Those values are the payloads; the entry
// has the largest of their sum. So an element counts that is large in the sum and small at every member, and what is
// sent does not grow with the members. Tables only choose: nothing is ever settled by them.
//
// The seed of a table is that of the log which its member follows, so every entry brings another hash. With one hash
// the same elements would share cells for ever, and what they hide would pile up in the accumulators.
//
// With `momentum` what is sketched and sent is an accumulator of velocities, as the paper has it: each is 0 again where
// an entry counted what was sent (velocity(), as of dgc).
//
// A table, little-endian: u64 seed, then cells as int8 with a scale for each 512 (update_values.h). The rounding is far
// below the noise of elements that share a cell.
// A request: the header and indices of a sparse payload (update_sparse.h) without its values.
// A payload: a sparse one with bf16 values. Without a request, as at the end of a run, a member chooses as topk does.
#pragma once

#include "compression/update_sparse.h"
#include "kernels/count_sketch.h"

namespace starling {

// A member's table for a merge.
struct SketchTerm {
  float weight = 0;  // mass of the sender / mass of all senders
  Bytes table;
};

class SketchTables {
 public:
  explicit SketchTables(const UpdateOptions& options) : options_(options) {}

  size_t bytes(size_t element_count) const;
  // False: x is not finite, or too large to be added up. REQUIRES: out.size() == bytes(x.size()).
  [[nodiscard]] bool encode(std::span<const float> x, const UpdateSeeds& seeds, MutableBytes out) const;
  static std::optional<uint64_t> seed(Bytes table);  // nullopt: too short for one
  // kWrongSize: also a table of another seed, which does not add up with the others.
  UpdateStatus check(Bytes table, size_t element_count, uint64_t seed) const;

  size_t request_bytes_max(size_t element_count) const;
  // Asks for the elements with the largest weighted sums, as the tables estimate them. A table's norm counts at most 3
  // times the median of all: one member must not choose for all. REQUIRES: every table passed check() with this seed.
  std::vector<std::byte> request(std::span<const SketchTerm> terms, size_t element_count, uint64_t seed) const;
  UpdateStatus check_request(Bytes request, size_t element_count) const;
  static std::vector<uint32_t> requested(Bytes request);  // REQUIRES: it passed check_request()

 private:
  SketchShape shape(size_t element_count, uint64_t seed) const;
  size_t requested_max(size_t element_count) const;

  const UpdateOptions options_;
};

class SketchUpdate final : public SparseUpdate<PlainValues<Bf16Values>> {
 public:
  explicit SketchUpdate(const UpdateOptions& options) : SparseUpdate(options), tables_(options) {}
  UpdateResidual residual() const override;
  const SketchTables* tables() const override { return &tables_; }
  UpdateVelocity velocity() const override {
    const double momentum = momentum_of(options_);
    return {.used = momentum > 0, .momentum = static_cast<float>(momentum)};
  }

 protected:
  size_t elements_max(UpdateRole role, size_t element_count) const override;
  std::optional<std::vector<uint32_t>> choose_indices(UpdateRole role, std::span<const float> x,
                                                      const UpdateSeeds& seeds) const override;

 private:
  const SketchTables tables_;
};

}  // namespace starling
