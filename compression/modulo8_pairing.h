// How two modulo8 payloads line up: each code is first multiplied up to the finer of the two steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "compression/codec.h"
#include "compression/modulo8_format.h"

namespace starling {

struct Modulo8Pairing {
  modulo8_format::Header own;
  modulo8_format::Header peer;
  int exponent;  // of the finer step
  int own_shift;
  int peer_shift;

  Modulo8Pairing(Bytes own_payload, Bytes peer_payload)
      : own(modulo8_format::read_header(own_payload)),
        peer(modulo8_format::read_header(peer_payload)),
        exponent(std::min(own.exponent, peer.exponent)),
        own_shift(own.exponent - exponent),
        peer_shift(peer.exponent - exponent) {}

  bool comparable() const { return std::abs(own.exponent - peer.exponent) <= modulo8_format::kMaxExponentGap; }
  uint32_t projected_difference() const { return (peer.projection << peer_shift) - (own.projection << own_shift); }
  // coefficient times the finer step, what one unit of the difference is worth.
  float factor(float coefficient) const { return coefficient * std::ldexp(1.0f, exponent); }
};

}  // namespace starling
