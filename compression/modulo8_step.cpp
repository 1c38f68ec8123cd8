#include "compression/modulo8_step.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "compression/modulo8_format.h"

namespace starling::modulo8_step {
namespace {

using namespace modulo8_format;

constexpr int kCoverSteps = 6;            // a fresh block spreads over +-2^6 steps
constexpr int kRoomExponents = 3;         // above the first step: for a block that is near zero here and not there
constexpr int kDistanceSteps = 5;         // in the long run the largest difference takes 2^5 steps, 1/4 of the range
constexpr int kEmptyBlockExponent = -10;  // for an all-zero block, which tells nothing about later differences
constexpr int kSmallestRemembered = -60;
static_assert(kMaxExponentGap > kDistanceSteps, "a pair that met could part its steps too far to meet again");

int clamp_exponent(int exponent) { return std::clamp(exponent, kMinExponent, kMaxExponent); }

// The smallest k with value <= 2^k. REQUIRES: value > 0 and finite.
int ceil_log2(float value) {
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);  // value = fraction * 2^exponent, fraction in [1/2, 1)
  return fraction == 0.5f ? exponent - 1 : exponent;
}

}  // namespace

int smallest_exponent(float max_abs) {
  return max_abs == 0 ? kMinExponent : clamp_exponent(ceil_log2(max_abs) - kQuantisedBits);
}

int first_exponent(float max_abs) {
  return max_abs == 0 ? kEmptyBlockExponent : clamp_exponent(ceil_log2(max_abs) - kCoverSteps);
}

int largest_exponent(float max_abs) { return clamp_exponent(first_exponent(max_abs) + kRoomExponents); }

int next_exponent(PairStatus status, float max_abs_difference, int own, int peer, std::optional<int> remembered) {
  int next = own;
  if (status != PairStatus::kOk) {   // coarser after a wrap; the coarser of the two if they are too far apart
    const bool wrapped = std::abs(own - peer) <= kMaxExponentGap;
    next = std::max(own, peer) + (wrapped ? 1 : 0);
  } else if (max_abs_difference == 0) {
    next = std::max(own - 1, kSmallestRemembered);
  } else {
    next = std::max({ceil_log2(max_abs_difference) - kDistanceSteps, own - 1, kSmallestRemembered});
  }
  // Another pairing of the same snapshot raised the step, because its differences need the range: keep it.
  if (remembered && *remembered > own) next = std::max(next, *remembered);
  return clamp_exponent(next);
}

}  // namespace starling::modulo8_step
