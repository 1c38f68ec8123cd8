// How modulo8 chooses the exponent of its step: when a snapshot is taken, and after two payloads met.
//
// The step is each sender's own, not one that the proposer chooses. The encoded payload is the snapshot: by the time a
// proposal arrives, the acceptor's params have moved on and cannot be encoded again with another step. Steps are powers
// of two, so codes of steps up to 2^6 apart are compared exactly by a shift; both ends see both exponents and reach the
// same verdict.
//
// The step follows the measured distance: the largest difference should take 17 to 32 of the 127 steps. It goes up at
// once, down one power of two per pairing, and up one on a wrap; steps more than 2^6 apart meet at the coarser. A pair
// that drifts steadily ends with both exponents equal or one apart. If one snapshot is paired several times, the
// coarsest step wins. (With a gap of at most 2^3, swarms of over a hundred never settled: a fifth of the exchanges
// failed, and steps stayed coarse.)
//
// The step does not fall to zero: encode raises the exponent until every integer fits in 30 bits, so the step is at
// least 1/64 of the largest value's last float bit.
//
// A peer cannot raise the step without limit: encode takes no step more than 2^3 above the one with which the block's
// own values cover 64 steps, and writes the capped exponent back to the memory. With a cap in the payload only, the
// raised exponent would return with every pairing, and a settling pair would stop short of zero. A block of zeros is
// measured by its section's rms: momentum, a bias or an adapter that is still zero here need not be zero there.
// (Modulo8.ASettledPairMeetsAgainAfterALiarRaisedItsSteps)
#pragma once

#include <optional>

#include "compression/codec.h"

namespace starling::modulo8_step {

// The smallest legal exponent at which every |q_i| <= 2^30, given the largest |x|.
int smallest_exponent(float max_abs);

// For a block never paired before: its own values cover +-64 steps, so the differences of similar blocks fit.
int first_exponent(float max_abs);

// The coarsest step allowed for values of this size; differences may then be sixteen times as large as the values. A
// peer that claims a coarser step is not followed, because one such claim would cost the whole swarm its resolution.
int largest_exponent(float max_abs);

// What to remember for the next snapshot. `own` and `peer` are the exponents of the two payloads, `remembered` what the
// memory holds now.
int next_exponent(PairStatus status, float max_abs_difference, int own, int peer, std::optional<int> remembered);

}  // namespace starling::modulo8_step
