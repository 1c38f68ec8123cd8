#include "compression/update_topk.h"

namespace starling {

template <class Values>
UpdateResidual TopkUpdate<Values>::residual() const {
  // The elements sent have at least their share of the energy.
  const double lost = static_cast<double>(Values::kRounding) + static_cast<double>(Values::kRoundingOfLargest);
  return {.rounding = Values::kRounding,
          .rounding_of_largest = Values::kRoundingOfLargest,
          .unsent = true,
          .energy = 1 - this->options_.density * (1 - lost)};
}

template <class Values>
size_t TopkUpdate<Values>::elements_max(UpdateRole role, size_t element_count) const {
  const size_t k = this->share(element_count);
  return role == UpdateRole::kContribution ? k : std::min(k * this->options_.reply, element_count);
}

template <class Values>
std::optional<std::vector<uint32_t>> TopkUpdate<Values>::choose_indices(UpdateRole role, std::span<const float> x,
                                                                        const UpdateSeeds&) const {
  return largest_elements(x, elements_max(role, x.size()));
}

template class TopkUpdate<PlainValues<Fp32Values>>;
template class TopkUpdate<PlainValues<Bf16Values>>;
template class TopkUpdate<Int8Values>;

}  // namespace starling
