#include "compression/update_dgc.h"

#include <algorithm>
#include <cmath>

#include "kernels/top_k.h"

namespace starling {
namespace {

constexpr double kFirstDensity = 0.25, kFall = 4;

}  // namespace

size_t DgcUpdate::stages() const {
  if (options_.warmup == 0) return 0;
  size_t stages = 0;
  for (double density = kFirstDensity; density > options_.density; density /= kFall) ++stages;
  return stages;
}

size_t DgcUpdate::elements(UpdateRole role, size_t element_count, size_t stage) const {
  const double density = stage < stages() ? kFirstDensity / std::pow(kFall, static_cast<double>(stage)) : 0;
  const size_t k = share(std::max(density, options_.density), element_count);
  return role == UpdateRole::kContribution ? k : std::min(k * options_.reply, element_count);
}

size_t DgcUpdate::elements_max(UpdateRole role, size_t element_count) const { return elements(role, element_count, 0); }

// The smallest stage that may have so many: the reader knows no stage, only how many there are.
size_t DgcUpdate::coded_for(UpdateRole role, size_t element_count, size_t count) const {
  size_t stage = stages();
  while (stage > 0 && elements(role, element_count, stage) < count) --stage;
  return elements(role, element_count, stage);
}

std::optional<std::vector<uint32_t>> DgcUpdate::choose_indices(UpdateRole role, std::span<const float> x,
                                                               const UpdateSeeds& seeds) const {
  const uint64_t stage =
      options_.warmup == 0 ? 0 : std::min<uint64_t>(seeds.entries * stages() / options_.warmup, stages());
  return largest_elements(x, elements(role, x.size(), static_cast<size_t>(stage)));
}

UpdateResidual DgcUpdate::residual() const { return {.unsent = true, .energy = 1 - options_.density}; }

}  // namespace starling
