// The dgc update codec: Deep Gradient Compression (Lin, Han, Mao, Wang, Dally 2018, arXiv:1712.01887). What is sent are
// the largest elements, as topk sends them; what differs lies with the member, beside the accumulator (velocity()):
//
//   momentum correction   u = momentum * u + drift;  accumulator += u
//   factor masking        u = 0 where an entry counted what this member sent
//   clipping              drift *= min(1, clip / sqrt(members) / |drift|), over the whole model
//   warm-up               the density falls from 1/4 by fours until the log has `warmup` entries
//
// Clipping is of the drift, which the learning rate is part of: the paper clips gradients.
#pragma once

#include "compression/update_sparse.h"

namespace starling {

class DgcUpdate final : public SparseUpdate<PlainValues<Fp32Values>> {
 public:
  using SparseUpdate::SparseUpdate;
  UpdateResidual residual() const override;
  UpdateVelocity velocity() const override {
    return {true, static_cast<float>(momentum_of(options_)), static_cast<float>(options_.clip)};
  }

 protected:
  size_t elements_max(UpdateRole role, size_t element_count) const override;
  size_t coded_for(UpdateRole role, size_t element_count, size_t count) const override;
  std::optional<std::vector<uint32_t>> choose_indices(UpdateRole role, std::span<const float> x,
                                                      const UpdateSeeds& seeds) const override;

 private:
  size_t stages() const;  // of the warm-up
  size_t elements(UpdateRole role, size_t element_count, size_t stage) const;
};

}  // namespace starling
