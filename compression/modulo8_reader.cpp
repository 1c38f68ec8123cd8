#include <cmath>

#include "compression/modulo8.h"
#include "compression/modulo8_format.h"
#include "compression/modulo8_pairing.h"
#include "compression/modulo8_step.h"
#include "kernels/check.h"
#include "kernels/modulo.h"

namespace starling {

using modulo8_format::kHeaderBytes;

PayloadStatus Modulo8Codec::check(Bytes payload, size_t element_count) const {
  if (payload.size() != modulo8_format::payload_bytes(element_count)) return PayloadStatus::kWrongSize;
  return modulo8_format::header_is_legal(payload) ? PayloadStatus::kOk : PayloadStatus::kBadHeader;
}

PairStatus Modulo8Codec::pair(Bytes own, Bytes peer, size_t element_count, PairStats* stats) const {
  STARLING_CHECK(own.size() == modulo8_format::payload_bytes(element_count));
  if (check(peer, element_count) != PayloadStatus::kOk) return PairStatus::kRefused;
  const Modulo8Pairing pairing(own, peer);
  if (!pairing.comparable()) return PairStatus::kStepsApart;
  const ModuloPair sums = modulo_pair(own.data() + kHeaderBytes, pairing.own_shift, peer.data() + kHeaderBytes,
                                      pairing.peer_shift, element_count);
  if (sums.projection != pairing.projected_difference()) return PairStatus::kWrapped;
  const double squares = static_cast<double>(sums.sum_squares);
  *stats = {.squared_distance = std::ldexp(squares, 2 * pairing.exponent),
            .max_abs_difference = std::ldexp(static_cast<float>(sums.max_abs), pairing.exponent)};
  return PairStatus::kOk;
}

void Modulo8Codec::apply(float coefficient, Bytes own, Bytes peer, View x) const {
  STARLING_CHECK(x.space == MemorySpace::kHost);
  STARLING_CHECK(own.size() == modulo8_format::payload_bytes(x.count) && peer.size() == own.size());
  const Modulo8Pairing pairing(own, peer);
  STARLING_CHECK(pairing.comparable());
  modulo_apply(pairing.factor(coefficient), own.data() + kHeaderBytes, pairing.own_shift, peer.data() + kHeaderBytes,
               pairing.peer_shift, x.count, x.data);
}

void Modulo8Codec::learn(PairStatus status, const PairStats& stats, Bytes own, Bytes peer, BlockState* state) const {
  const Modulo8Pairing pairing(own, peer);
  state->step_exponent = modulo8_step::next_exponent(status, stats.max_abs_difference, pairing.own.exponent,
                                                     pairing.peer.exponent, *state);
}

}  // namespace starling
