// How many steps each member takes in a round, in units of the median member's, by the masses that they claim.
#pragma once

#include <algorithm>
#include <vector>

#include "gossip/exchange/robust_window.h"

namespace starling {

// One for each mass, in [1, 8]. With `weight: uniform` the mass is 1 / rate, so a member that claims to be light to be
// allowed larger steps also counts less.
inline std::vector<double> paces_of(const std::vector<double>& masses) {
  constexpr double kPaceMax = 8;
  std::vector<double> paces;
  const double median = masses.empty() ? 0 : upper_median(masses);
  for (double mass : masses) paces.push_back(std::clamp(median / mass, 1.0, kPaceMax));
  return paces;
}

}  // namespace starling
