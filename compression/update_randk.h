// The randk update codecs: k elements by chance, the same ones at all members that hold the same log, so that no index
// travels and an entry holds what they sent. Stich et al. 2018 (arXiv:1809.07599), definition 2.1, with one element of
// each run of n / k instead of k of all: as likely for each element, and cheaper to choose in order.
//
// Values are as they are, not times n / k: what was not sent is kept, so nothing is left out for long.
#pragma once

#include "compression/update_sparse.h"

namespace starling {

template <class Values>
class RandkUpdate final : public SparseUpdate<Values> {
 public:
  using SparseUpdate<Values>::SparseUpdate;
  UpdateResidual residual() const override;

 protected:
  size_t elements_max(UpdateRole, size_t element_count) const override { return this->share(element_count); }
  SparseIndices indices_of(size_t) const override { return SparseIndices::kSeeded; }
  std::optional<std::vector<uint32_t>> choose_indices(UpdateRole role, std::span<const float> x,
                                                      const UpdateSeeds& seeds) const override;
};

}  // namespace starling
