#include "compression/bf16.h"
#include "compression/bf16_format.h"
#include "kernels/cast.h"
#include "kernels/check.h"

namespace starling {

size_t Bf16Codec::payload_bytes(size_t element_count) const { return bf16_format::payload_bytes(element_count); }

bool Bf16Codec::encode(ConstView x, const BlockState&, MutableBytes out) const {
  STARLING_CHECK(x.space == MemorySpace::kHost);
  STARLING_CHECK(out.size() == payload_bytes(x.count));
  return f32_to_bf16(x.data, x.count, out.data());
}

}  // namespace starling
