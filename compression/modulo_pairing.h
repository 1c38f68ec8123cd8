// How two payloads of a modulo codec line up: each code is first multiplied up to the finer of the two steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "compression/codec.h"
#include "compression/modulo_format.h"
#include "compression/modulo_step.h"

namespace starling {

struct ModuloPairing {
  modulo_format::Header own;
  modulo_format::Header peer;
  int exponent;  // of the finer step
  int own_shift;
  int peer_shift;

  ModuloPairing(Bytes own_payload, Bytes peer_payload)
      : own(modulo_format::read_header(own_payload)),
        peer(modulo_format::read_header(peer_payload)),
        exponent(std::min(own.exponent, peer.exponent)),
        own_shift(own.exponent - exponent),
        peer_shift(peer.exponent - exponent) {}

  bool comparable(const ModuloSteps& steps) const {
    return std::abs(own.exponent - peer.exponent) <= steps.exponent_gap_max;
  }
  // In units of the finer step: the largest difference that rounding alone makes of values that are equal or nearly so.
  uint32_t rounding() const {
    const int shift = std::max(own_shift, peer_shift);
    return shift == 0 ? 1 : uint32_t{1} << (shift - 1);
  }
  uint32_t projected_difference() const { return (peer.projection << peer_shift) - (own.projection << own_shift); }
  // coefficient times the finer step, what one unit of the difference is worth.
  float factor(float coefficient) const { return coefficient * std::ldexp(1.0f, exponent); }
};

}  // namespace starling
