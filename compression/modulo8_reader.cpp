#include <cmath>

#include "compression/modulo8.h"
#include "compression/modulo8_format.h"
#include "compression/modulo8_pairing.h"
#include "compression/modulo8_step.h"
#include "kernels/check.h"
#include "kernels/modulo.h"

namespace starling {

using modulo8_format::kHeaderBytes;

constexpr int kNoExponent = -128;   // in saved memory

PayloadStatus Modulo8Codec::check(Bytes payload, size_t element_count) const {
  if (payload.size() != modulo8_format::payload_bytes(element_count)) return PayloadStatus::kWrongSize;
  return modulo8_format::header_is_legal(payload) ? PayloadStatus::kOk : PayloadStatus::kBadHeader;
}

PairStatus Modulo8Codec::pair(Bytes own, Bytes peer, size_t element_count, PairStats* stats) const {
  STARLING_CHECK(own.size() == modulo8_format::payload_bytes(element_count));
  if (check(peer, element_count) != PayloadStatus::kOk) return PairStatus::kRefused;
  const Modulo8Pairing pairing(own, peer);
  if (!pairing.comparable()) return PairStatus::kLeftOut;
  const ModuloPair sums = modulo_pair(own.data() + kHeaderBytes, pairing.own_shift, peer.data() + kHeaderBytes,
                                      pairing.peer_shift, element_count);
  if (sums.projection != pairing.projected_difference()) return PairStatus::kLeftOut;
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

size_t Modulo8Codec::learnable_bytes(size_t) const { return kHeaderBytes; }

void Modulo8Codec::learn(const PairVerdict& verdict, CodecMemory* memory) const {
  const Modulo8Pairing pairing(verdict.own, verdict.peer);
  auto& exponent = static_cast<Modulo8Memory*>(memory)->exponent;
  exponent = modulo8_step::next_exponent(verdict.status, verdict.stats.max_abs_difference, pairing.own.exponent,
                                         pairing.peer.exponent, exponent);
}

std::vector<std::byte> Modulo8Memory::save() const {
  return {static_cast<std::byte>(static_cast<int8_t>(exponent.value_or(kNoExponent)))};
}

bool Modulo8Memory::load(Bytes saved) {
  if (saved.size() != 1) return false;
  const int value = static_cast<int8_t>(saved[0]);
  const bool legal = value >= modulo8_format::kMinExponent && value <= modulo8_format::kMaxExponent;
  if (value != kNoExponent && !legal) return false;
  exponent = value == kNoExponent ? std::nullopt : std::optional(value);
  return true;
}

}  // namespace starling
