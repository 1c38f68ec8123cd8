#include "compression/modulo_step.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "compression/modulo_format.h"

namespace starling::modulo_step {
namespace {

using namespace modulo_format;

constexpr int kRoomExponents = 3;         // above the first step: for a block that is near zero here and not there
constexpr int kEmptyBlockExponent = -10;  // for an all-zero block, which tells nothing about later differences
constexpr int kSmallestRemembered = -60;

// What the constants of a codec have to satisfy.
constexpr bool sound(const ModuloSteps& steps, int bits) {
  const int range = bits - 1;                        // differences are below 2^range steps
  return steps.exponent_gap_max > steps.distance &&  // a pair that met never parts its steps too far to meet again
         steps.exponent_gap_max - 1 < range &&       // the rounding of a step so much coarser does not wrap
         steps.rise <= range - steps.distance &&     // after a wrap no step is coarser than the distance asks for
         steps.distance < range && steps.cover < range && steps.values <= kQuantisedBits &&
         steps.values - 24 < range;  // a last bit of a float does not wrap
}
static_assert(sound(kModuloSteps<8>, 8) && sound(kModuloSteps<4>, 4));

int clamp_exponent(int exponent) { return std::clamp(exponent, kMinExponent, kMaxExponent); }

// The smallest k with value <= 2^k. REQUIRES: value > 0 and finite.
int ceil_log2(float value) {
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);  // value = fraction * 2^exponent, fraction in [1/2, 1)
  return fraction == 0.5f ? exponent - 1 : exponent;
}

}  // namespace

int smallest_exponent(const ModuloSteps& steps, float max_abs) {
  return max_abs == 0 ? kMinExponent : clamp_exponent(ceil_log2(max_abs) - steps.values);
}

int first_exponent(const ModuloSteps& steps, float max_abs) {
  return max_abs == 0 ? kEmptyBlockExponent : clamp_exponent(ceil_log2(max_abs) - steps.cover);
}

int largest_exponent(const ModuloSteps& steps, float max_abs) {
  return clamp_exponent(first_exponent(steps, max_abs) + kRoomExponents);
}

int next_exponent(const ModuloSteps& steps, PairStatus status, float max_abs_difference, int own, int peer,
                  std::optional<int> remembered) {
  int next = own;
  if (status != PairStatus::kOk) {  // coarser after a wrap; the coarser of the two if they are too far apart
    const bool wrapped = std::abs(own - peer) <= steps.exponent_gap_max;
    next = std::max(own, peer) + (!wrapped ? 0 : own == peer ? steps.rise : steps.rise_apart);
  } else if (max_abs_difference == 0) {
    next = std::max(own - 1, kSmallestRemembered);
  } else {
    next = std::max({ceil_log2(max_abs_difference) - steps.distance, own - 1, kSmallestRemembered});
  }
  // Another pairing of the same snapshot raised the step, because its differences need the range: keep it.
  if (remembered && *remembered > own) next = std::max(next, *remembered);
  return clamp_exponent(next);
}

}  // namespace starling::modulo_step
