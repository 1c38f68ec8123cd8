// The topk update codecs: the k elements of largest magnitude, of equal ones those with the lower index, never zeros.
// What was not sent stays in the accumulator and grows there until it is among the largest: "Sparsified SGD with
// Memory" (Stich, Cordonnier, Jaggi 2018, arXiv:1809.07599).
//
// A payload (update_sparse.h) holds at most k elements (a contribution) or reply * k (an entry), where k is the
// density's share of the slice rounded up. An entry holds the largest elements of the sum only: what members sent
// elsewhere returns to them, because they settle on the entry's support alone. So entries do not grow with the members.
#pragma once

#include "compression/update_sparse.h"

namespace starling {

template <class Values>
class TopkUpdate final : public SparseUpdate<Values> {
 public:
  using SparseUpdate<Values>::SparseUpdate;
  UpdateResidual residual() const override;

 protected:
  size_t elements_max(UpdateRole role, size_t element_count) const override;
  std::optional<std::vector<uint32_t>> choose_indices(UpdateRole role, std::span<const float> x,
                                                      const UpdateSeeds& seeds) const override;
};

}  // namespace starling
