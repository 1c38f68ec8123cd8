#include "agent/share/plan_slices.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "gossip/updates/update_replicas.h"

namespace starling {

std::vector<PlanSection> plan_slices(const std::vector<PlanSection>& layers, size_t slices_max) {
  size_t elements = 0;
  for (const PlanSection& layer : layers) elements += layer.elements;
  std::vector<uint64_t> sizes;
  for (const SliceRange& slice : cut_slices(std::array{elements}, slices_max)) sizes.push_back(slice.count);
  std::reverse(sizes.begin(), sizes.end());
  return cut_at(layers, sizes);
}

}  // namespace starling
