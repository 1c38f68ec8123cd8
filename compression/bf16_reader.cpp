#include <cmath>

#include "compression/bf16.h"
#include "compression/bf16_format.h"
#include "kernels/cast.h"
#include "kernels/check.h"
#include "kernels/pair.h"

namespace starling {

PayloadStatus Bf16Codec::check(Bytes payload, size_t element_count) const {
  if (payload.size() != bf16_format::payload_bytes(element_count)) return PayloadStatus::kWrongSize;
  return all_finite_bf16(payload.data(), element_count) ? PayloadStatus::kOk : PayloadStatus::kNonFinite;
}

PairStatus Bf16Codec::pair(Bytes own, Bytes peer, size_t element_count, PairStats* stats) const {
  STARLING_CHECK(own.size() == bf16_format::payload_bytes(element_count));
  if (peer.size() != own.size()) return PairStatus::kRefused;
  const PairSums sums = pair_sums_bf16(own.data(), peer.data(), element_count);
  if (!std::isfinite(sums.max_abs_difference)) {
    return all_finite_bf16(peer.data(), element_count) ? PairStatus::kWrapped : PairStatus::kRefused;
  }
  *stats = {.squared_distance = sums.squared_distance, .max_abs_difference = sums.max_abs_difference};
  return PairStatus::kOk;
}

void Bf16Codec::apply(float coefficient, Bytes own, Bytes peer, View x) const {
  STARLING_CHECK(x.space == MemorySpace::kHost);
  STARLING_CHECK(own.size() == bf16_format::payload_bytes(x.count) && peer.size() == own.size());
  pair_apply_bf16(coefficient, own.data(), peer.data(), x.count, x.data);
}

void Bf16Codec::learn(PairStatus, const PairStats&, Bytes, Bytes, BlockState*) const {}

}  // namespace starling
