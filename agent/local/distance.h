// How far the models of a finished swarm are from each other.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace starling {

// Root of the mean, over all models and elements, of the squared difference to the models' mean. Empty if the models
// are fewer than two, empty, or of different lengths.
std::optional<double> rms_distance(const std::vector<std::span<const float>>& models);

// rms_distance of the params in the newest checkpoint of each agent's state folder. Empty also if one cannot be read.
std::optional<double> params_distance(const std::vector<std::string>& state_dirs);

}  // namespace starling
