// The order of work of a modulo8 encode, the same for the host's loops and the GPU's: one pass with the remembered
// step, which also measures; a second one only where that step proved too small.
#pragma once

#include <bit>
#include <cmath>
#include <optional>

#include "compression/codec.h"
#include "compression/modulo8_format.h"
#include "compression/modulo8_step.h"
#include "kernels/modulo.h"

namespace starling {

// `measure()` gives max|x| (non-finite if any x is); `encode_at(exponent)` writes the codes and gives a
// ModuloEncoded. nullopt if x holds a non-finite value.
template <class Measure, class EncodeAt>
std::optional<modulo8_format::Header> modulo8_encode(const BlockState& state, const Measure& measure,
                                                     const EncodeAt& encode_at) {
  std::optional<int> exponent = modulo8_step::remembered_exponent(state);
  if (!exponent) {
    const float max_abs = measure();
    if (!std::isfinite(max_abs)) return std::nullopt;
    exponent = modulo8_step::first_exponent(max_abs);
  }
  ModuloEncoded encoded = encode_at(*exponent);
  const float max_abs = std::bit_cast<float>(encoded.max_abs_bits);
  if (!std::isfinite(max_abs)) return std::nullopt;
  if (const int smallest = modulo8_step::smallest_exponent(max_abs); smallest > *exponent) {
    exponent = smallest;
    encoded = encode_at(smallest);
  }
  return modulo8_format::Header{*exponent, encoded.projection};
}

}  // namespace starling
