#include "compression/dense.h"

#include <cmath>

#include "kernels/check.h"

namespace starling {

template <class Element>
std::optional<size_t> DenseCodec<Element>::encode(ConstView x, const EncodeContext&, MutableBytes out) const {
  STARLING_CHECK(x.space == MemorySpace::kHost);
  STARLING_CHECK(out.size() == payload_bytes_max(x.count));
  if (!Element::kEncode(x.data, x.count, out.data())) return std::nullopt;
  return out.size();
}

template <class Element>
PayloadStatus DenseCodec<Element>::check(Bytes payload, size_t element_count) const {
  if (payload.size() != payload_bytes_max(element_count)) return PayloadStatus::kWrongSize;
  return Element::kAllFinite(payload.data(), element_count) ? PayloadStatus::kOk : PayloadStatus::kNonFinite;
}

template <class Element>
PairStatus DenseCodec<Element>::pair(Bytes own, Bytes peer, size_t element_count, PairStats* stats) const {
  STARLING_CHECK(own.size() == payload_bytes_max(element_count));
  if (peer.size() != own.size()) return PairStatus::kRefused;
  const PairSums sums = Element::kPairSums(own.data(), peer.data(), element_count);
  if (!std::isfinite(sums.max_abs_difference)) {
    return Element::kAllFinite(peer.data(), element_count) ? PairStatus::kLeftOut : PairStatus::kRefused;
  }
  *stats = {.squared_distance = sums.squared_distance, .max_abs_difference = sums.max_abs_difference};
  return PairStatus::kOk;
}

template <class Element>
void DenseCodec<Element>::apply(float coefficient, Bytes own, Bytes peer, View x) const {
  STARLING_CHECK(x.space == MemorySpace::kHost);
  STARLING_CHECK(own.size() == payload_bytes_max(x.count) && peer.size() == own.size());
  Element::kPairApply(coefficient, own.data(), peer.data(), x.count, x.data);
}

template class DenseCodec<Fp32Element>;
template class DenseCodec<Bf16Element>;
template class DenseCodec<Fp16Element>;

}  // namespace starling
