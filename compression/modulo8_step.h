// How modulo8 chooses the exponent of its step: when a snapshot is taken, and after two payloads met.
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
