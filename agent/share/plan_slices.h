// What a merge plan merges: the slices that a group that shares gradients makes of a model.
#pragma once

#include <cstddef>
#include <vector>

#include "compression/plan/sections.h"

namespace starling {

// The slices of a model of these layers, in the order of backward, as cut_slices() makes at most so many of all its
// params. REQUIRES: sections without a fault.
std::vector<PlanSection> plan_slices(const std::vector<PlanSection>& layers, size_t slices_max);

}  // namespace starling
