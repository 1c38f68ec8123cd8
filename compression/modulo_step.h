// How modulo8 and modulo4 choose the exponent of their step: when a snapshot is taken, and after two payloads met.
//
// The step is each sender's own, not one that the proposer chooses. The encoded payload is the snapshot: by the time a
// proposal arrives, the acceptor's params have moved on and cannot be encoded again with another step. Steps are powers
// of two, so codes of steps not too far apart are compared exactly by a shift; both ends see both exponents and reach
// the same verdict.
//
// The step follows the measured distance: the largest difference should take 17 to 32 of the 127 steps of modulo8, and
// 3 or 4 of the 7 of modulo4. It goes up at once, and down one power of two per pairing. A wrap tells only that the
// difference is out of range: both steps rise by `rise`, with which it takes as many steps as it should, or more. Steps
// farther apart than exponent_gap_max meet at the coarser. A pair that drifts steadily ends with both exponents equal
// or one apart. If one snapshot is paired several times, the coarsest step wins.
//
// Two steps apart differ by at least the coarser one's rounding, half its step, which lets the finer step fall to
// distance + 1 exponents below the coarser. With just that gap a successful exchange never makes a pair incomparable.
// With a smaller one a large swarm that met one distant agent never settles: half of it keeps following the coarsest
// step while the rest gets finer.
// A larger one would not help modulo4: half of a step 2^4 coarser is 8 of the finer ones, and wraps. There unequal
// steps wrap often, and not because the coarser is too fine: both begin again at the coarser, not above it. So
// members that met a stranger settle; in swarms of several hundred some exchanges fail for ever.
// (Modulo.ALargeSwarmSettlesAfterMeetingOneStranger)
//
// No delta is applied to a block in which rounding alone can make the largest difference. It would bring models that
// agree as far apart as the coarser step's rounding, each time one of them has met a coarse step. Both steps fall until
// what is left of a difference shows. (Modulo.ADifferenceThatRoundingAloneMakesIsNone)
//
// The step does not fall to zero: encode raises the exponent until every integer fits in 30 bits, or 25. So the last
// bit of the largest float is worth at most 64 steps, or 2, and agents that are apart by the rounding of their floats
// alone do not wrap.
//
// A peer cannot raise the step without limit. The encoder takes no step more than 2^3 above the one with which the
// block's own values cover 2^cover steps, and writes the capped exponent back to the memory. With a cap in the payload
// only, the raised exponent would return with every pairing, and a settling pair would stop short of zero. A block of
// zeros is measured by its section's rms: momentum, a bias or an adapter that is still zero here need not be zero
// there.
// (Modulo.ASettledPairMeetsAgainAfterALiarRaisedItsSteps)
#pragma once

#include <optional>

#include "compression/codec.h"

namespace starling {

// Of a modulo codec with so many bits, in powers of two.
struct ModuloSteps {
  int values;            // the step is so fine at most that every |q_i| <= 2^values
  int cover;             // a fresh block's own values spread over +-2^cover steps
  int distance;          // in the long run the largest difference takes at most 2^distance steps
  int exponent_gap_max;  // of two steps that are compared
  int rise;              // after a wrap of two equal steps
  int rise_apart;        // of two unequal ones: how far above the coarser both begin again
};
template <int kBits>
inline constexpr ModuloSteps kModuloSteps{30, 6, 5, 6, 2, 1};
template <>
inline constexpr ModuloSteps kModuloSteps<4>{25, 2, 2, 3, 1, 0};

}  // namespace starling

namespace starling::modulo_step {

// The smallest legal exponent at which every |q_i| <= 2^steps.values, given the largest |x|. (For the largest floats
// the largest legal one; then |q_i| <= 2^30 still holds.)
int smallest_exponent(const ModuloSteps& steps, float max_abs);

// For a block never paired before: its own values cover +-2^cover steps, so the differences of similar blocks fit.
int first_exponent(const ModuloSteps& steps, float max_abs);

// The coarsest step allowed for values of this size; differences may then be sixteen times as large as the values. A
// peer that claims a coarser step is not followed, because one such claim would cost the whole swarm its resolution.
int largest_exponent(const ModuloSteps& steps, float max_abs);

// What to remember for the next snapshot. `own` and `peer` are the exponents of the two payloads, `remembered` what the
// memory holds now.
int next_exponent(const ModuloSteps& steps, PairStatus status, float max_abs_difference, int own, int peer,
                  std::optional<int> remembered);

}  // namespace starling::modulo_step
