// Names, shapes and places of the tensors of a loop's own model, kept in its state folder beside the checkpoints, which
// hold numbers alone.
#pragma once

#include <string>

#include "agent/train/model_plan.h"

namespace starling {

// Durably, or throws std::runtime_error.
void store_tensor_list(const std::string& folder, const ModelPlan& plan);

// Throws std::runtime_error: there is none, or it is damaged. Slots lie in order, within param_count.
ModelPlan stored_tensor_list(const std::string& folder);

}  // namespace starling
