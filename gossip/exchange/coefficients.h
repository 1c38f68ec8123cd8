// The factors on the difference of a pair. With delta = w * f(a, b), A adds delta / mA and B subtracts delta / mB, so
// mA * x_A + mB * x_B is conserved. Both agents compute both factors from the same doubles.
#pragma once

#include <algorithm>
#include <cmath>

#include "gossip/limits.h"

namespace starling {

// Masses outside this range are damage or malice. Inside it nothing here over- or underflows.
inline bool mass_is_sane(double mass) { return std::isfinite(mass) && mass >= 1e-12 && mass <= 1e12; }
inline bool offer_is_sane(double offer) { return offer > 0 && offer <= 1; }
inline bool scale_is_sane(double scale) { return scale > 0 && scale <= 1; }

// The scale of an agent that takes nothing. Older programs, which go by the smaller scale, move as little.
inline constexpr double kTakesNothing = 1e-100;

struct PairCoefficients {
  float proposer = 0;
  float acceptor = 0;
};

// `offer`: the smaller of both offers, times the scale; in (0, 1]. The heavier mass counts at most kMassRatioMax times
// the lighter one. Both agents then move less, in the same proportion, so the sum is still conserved. REQUIRES: both
// masses are sane.
inline PairCoefficients pair_coefficients(double offer, double proposer_mass, double acceptor_mass) {
  const double a = std::min(proposer_mass, kMassRatioMax * acceptor_mass);
  const double b = std::min(acceptor_mass, kMassRatioMax * proposer_mass);
  const double w = offer * (a * b / (a + b));
  return {static_cast<float>(w / proposer_mass), static_cast<float>(w / acceptor_mass)};
}

}  // namespace starling
