#include "compression/update_randk.h"

#include <cmath>

#include "kernels/vector_ops.h"

namespace starling {

template <class Values>
UpdateResidual RandkUpdate<Values>::residual() const {
  const double run = std::ceil(1 / this->options_.density);   // no element is one of more
  const double lost = static_cast<double>(Values::kRounding) + static_cast<double>(Values::kRoundingOfLargest);
  return {.rounding = Values::kRounding, .rounding_of_largest = Values::kRoundingOfLargest, .unsent = true,
          .energy = 1 - (1 - lost) / run};
}

template <class Values>
std::optional<std::vector<uint32_t>> RandkUpdate<Values>::choose_indices(UpdateRole role, std::span<const float> x,
                                                                         const UpdateSeeds& seeds) const {
  if (count_nonfinite(x.data(), x.size()) > 0) return std::nullopt;
  return seeded_indices(static_cast<uint32_t>(seeds.common), elements_max(role, x.size()), x.size());
}

template class RandkUpdate<PlainValues<Fp32Values>>;
template class RandkUpdate<PlainValues<Bf16Values>>;
template class RandkUpdate<Int8Values>;

}  // namespace starling
