#include "compression/modulo.h"

#include <cmath>

#include "compression/modulo_encode.h"
#include "compression/modulo_format.h"
#include "compression/modulo_pairing.h"
#include "kernels/check.h"
#include "kernels/modulo.h"
#include "kernels/vector_ops.h"

namespace starling {

using modulo_format::kHeaderBytes;

constexpr int kNoExponent = -128;  // in saved memory

// ---- write ----

template <int kBits>
size_t ModuloCodec<kBits>::payload_bytes_max(size_t element_count) const {
  return modulo_format::payload_bytes<kBits>(element_count);
}

template <int kBits>
std::unique_ptr<CodecMemory> ModuloCodec<kBits>::make_memory(size_t) const {
  return std::make_unique<ModuloMemory>();
}

template <int kBits>
std::optional<size_t> ModuloCodec<kBits>::encode(ConstView x, const EncodeContext& context, MutableBytes out) const {
  STARLING_CHECK(x.space == MemorySpace::kHost);
  STARLING_CHECK(out.size() == payload_bytes_max(x.count));
  const MutableBytes codes = out.subspan(modulo_format::kHeaderBytes);
  const auto header = modulo_snapshot(
      kSteps, context, [&] { return max_abs(x.data, x.count); },
      [&](int exponent) { return modulo_encode<kBits>(x.data, x.count, exponent, codes.data()); });
  if (!header) return std::nullopt;
  modulo_format::write_header(*header, out);
  return out.size();
}

// ---- read ----

template <int kBits>
PayloadStatus ModuloCodec<kBits>::check(Bytes payload, size_t element_count) const {
  if (payload.size() != payload_bytes_max(element_count)) return PayloadStatus::kWrongSize;
  const bool legal =
      modulo_format::header_is_legal(payload) && modulo_format::codes_are_legal<kBits>(payload, element_count);
  return legal ? PayloadStatus::kOk : PayloadStatus::kBadHeader;
}

template <int kBits>
PairStatus ModuloCodec<kBits>::pair(Bytes own, Bytes peer, size_t element_count, PairStats* stats) const {
  STARLING_CHECK(own.size() == payload_bytes_max(element_count));
  if (check(peer, element_count) != PayloadStatus::kOk) return PairStatus::kRefused;
  const ModuloPairing pairing(own, peer);
  if (!pairing.comparable(kSteps)) return PairStatus::kLeftOut;
  const ModuloPair sums = modulo_pair<kBits>(own.data() + kHeaderBytes, pairing.own_shift, peer.data() + kHeaderBytes,
                                             pairing.peer_shift, element_count);
  if (sums.projection != pairing.projected_difference()) return PairStatus::kLeftOut;
  const bool apart = sums.max_abs > pairing.rounding();
  const double squares = apart ? static_cast<double>(sums.sum_squares) : 0;
  *stats = {.squared_distance = std::ldexp(squares, 2 * pairing.exponent),
            .max_abs_difference = std::ldexp(static_cast<float>(sums.max_abs), pairing.exponent)};
  return PairStatus::kOk;
}

template <int kBits>
bool ModuloCodec<kBits>::comparable(Bytes own, Bytes peer) const {
  return ModuloPairing(own, peer).comparable(kSteps);
}

template <int kBits>
void ModuloCodec<kBits>::apply(float coefficient, Bytes own, Bytes peer, View x) const {
  STARLING_CHECK(x.space == MemorySpace::kHost);
  STARLING_CHECK(own.size() == payload_bytes_max(x.count) && peer.size() == own.size());
  const ModuloPairing pairing(own, peer);
  STARLING_CHECK(pairing.comparable(kSteps));
  modulo_apply<kBits>(pairing.factor(coefficient), own.data() + kHeaderBytes, pairing.own_shift,
                      peer.data() + kHeaderBytes, pairing.peer_shift, x.count, x.data);
}

template <int kBits>
size_t ModuloCodec<kBits>::learnable_bytes(size_t) const {
  return kHeaderBytes;
}

template <int kBits>
void ModuloCodec<kBits>::learn(const PairVerdict& verdict, CodecMemory* memory) const {
  const ModuloPairing pairing(verdict.own, verdict.peer);
  auto& exponent = static_cast<ModuloMemory*>(memory)->exponent;
  exponent = modulo_step::next_exponent(kSteps, verdict.status, verdict.stats.max_abs_difference, pairing.own.exponent,
                                        pairing.peer.exponent, exponent);
}

template class ModuloCodec<8>;
template class ModuloCodec<4>;

// ---- memory ----

std::vector<std::byte> ModuloMemory::save() const {
  return {static_cast<std::byte>(static_cast<int8_t>(exponent.value_or(kNoExponent)))};
}

bool ModuloMemory::load(Bytes saved) {
  if (saved.size() != 1) return false;
  const int value = static_cast<int8_t>(saved[0]);
  const bool legal = value >= modulo_format::kMinExponent && value <= modulo_format::kMaxExponent;
  if (value != kNoExponent && !legal) return false;
  exponent = value == kNoExponent ? std::nullopt : std::optional(value);
  return true;
}

}  // namespace starling
