// How much of the difference each side of a pair takes. With delta = w * f(a, b), A adds delta / mA and B
// subtracts delta / mB, so mA * x_A + mB * x_B stays. Both sides compute both numbers from the same four
// doubles.
#pragma once

#include <algorithm>
#include <cmath>

#include "gossip/limits.h"

namespace starling {

// Masses far outside this range are damage or malice, not weights; inside it nothing here over- or
// underflows.
inline bool mass_is_sane(double mass) { return std::isfinite(mass) && mass >= 1e-12 && mass <= 1e12; }
inline bool share_is_sane(double share) { return share > 0 && share <= 1; }
inline bool scale_is_sane(double scale) { return scale > 0 && scale <= 1; }

struct PairCoefficients {
  float proposer = 0;
  float acceptor = 0;
};

// gain = s * g, in (0, 1]. The heavier one counts as at most kMassRatioMax times the lighter: the lighter is
// drawn less, the heavier accordingly less, and the sum still stays. REQUIRES: both masses sane.
inline PairCoefficients pair_coefficients(double gain, double proposer_mass, double acceptor_mass) {
  const double a = std::min(proposer_mass, kMassRatioMax * acceptor_mass);
  const double b = std::min(acceptor_mass, kMassRatioMax * proposer_mass);
  const double w = gain * (a * b / (a + b));
  return {static_cast<float>(w / proposer_mass), static_cast<float>(w / acceptor_mass)};
}

}  // namespace starling
