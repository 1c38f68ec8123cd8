#include "compression/dense.h"

#include <cmath>

#include "kernels/check.h"

namespace starling {

template <class Element>
bool DenseCodec<Element>::encode(ConstView x, const BlockState&, MutableBytes out) const {
  STARLING_CHECK(x.space == MemorySpace::kHost);
  STARLING_CHECK(out.size() == payload_bytes(x.count));
  return Element::kEncode(x.data, x.count, out.data());
}

template <class Element>
PayloadStatus DenseCodec<Element>::check(Bytes payload, size_t element_count) const {
  if (payload.size() != payload_bytes(element_count)) return PayloadStatus::kWrongSize;
  return Element::kAllFinite(payload.data(), element_count) ? PayloadStatus::kOk : PayloadStatus::kNonFinite;
}

template <class Element>
PairStatus DenseCodec<Element>::pair(Bytes own, Bytes peer, size_t element_count, PairStats* stats) const {
  STARLING_CHECK(own.size() == payload_bytes(element_count));
  if (peer.size() != own.size()) return PairStatus::kRefused;
  const PairSums sums = Element::kPairSums(own.data(), peer.data(), element_count);
  if (!std::isfinite(sums.max_abs_difference)) {
    return Element::kAllFinite(peer.data(), element_count) ? PairStatus::kWrapped : PairStatus::kRefused;
  }
  *stats = {.squared_distance = sums.squared_distance, .max_abs_difference = sums.max_abs_difference};
  return PairStatus::kOk;
}

template <class Element>
void DenseCodec<Element>::apply(float coefficient, Bytes own, Bytes peer, View x) const {
  STARLING_CHECK(x.space == MemorySpace::kHost);
  STARLING_CHECK(own.size() == payload_bytes(x.count) && peer.size() == own.size());
  Element::kPairApply(coefficient, own.data(), peer.data(), x.count, x.data);
}

template <class Element>
void DenseCodec<Element>::learn(PairStatus, const PairStats&, Bytes, Bytes, BlockState*) const {}

template class DenseCodec<Fp32Element>;
template class DenseCodec<Bf16Element>;

}  // namespace starling
