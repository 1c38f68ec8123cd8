// The order of work of a modulo encode, the same for the host's loops and the GPU's. One pass with the remembered step
// also measures; a second one comes only where that step is not legal for these values. The memory
// then takes the step that was used, so that a step raised beyond the limit by peers does not return through it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "compression/codec.h"
#include "compression/modulo.h"
#include "compression/modulo_format.h"
#include "compression/modulo_step.h"
#include "kernels/modulo.h"

namespace starling {

// The scale of a block's values. For a block of zeros it is the section's rms: the peer's block need not be zero.
inline float modulo_scale(float max_abs, const EncodeContext& context) {
  if (max_abs > 0 || !context.section_rms) return max_abs;
  const float rms = context.section_rms();
  return std::isfinite(rms) ? rms : 0;  // not finite: another block of the section refuses
}

// `measure()` gives max|x| (non-finite if any x is); `encode_at(exponent)` writes the codes and gives a
// ModuloEncoded. nullopt if x holds a non-finite value.
template <class Measure, class EncodeAt>
std::optional<modulo_format::Header> modulo_snapshot(const ModuloSteps& steps, const EncodeContext& context,
                                                     const Measure& measure, const EncodeAt& encode_at) {
  auto* memory = static_cast<ModuloMemory*>(context.memory);
  std::optional<int> exponent = memory != nullptr ? memory->exponent : std::nullopt;
  if (!exponent) {
    const float max_abs = measure();
    if (!std::isfinite(max_abs)) return std::nullopt;
    exponent = modulo_step::first_exponent(steps, modulo_scale(max_abs, context));
  }
  ModuloEncoded encoded = encode_at(*exponent);
  const float max_abs = std::bit_cast<float>(encoded.max_abs_bits);
  if (!std::isfinite(max_abs)) return std::nullopt;
  const int legal = std::clamp(*exponent, modulo_step::smallest_exponent(steps, max_abs),
                               modulo_step::largest_exponent(steps, modulo_scale(max_abs, context)));
  if (legal != *exponent) {
    exponent = legal;
    encoded = encode_at(legal);
  }
  if (memory != nullptr && memory->exponent) memory->exponent = legal;
  return modulo_format::Header{*exponent, encoded.projection};
}

}  // namespace starling
