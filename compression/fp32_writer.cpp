#include "compression/fp32.h"
#include "compression/fp32_format.h"
#include "kernels/cast.h"
#include "kernels/check.h"

namespace starling {

size_t Fp32Codec::payload_bytes(size_t element_count) const { return fp32_format::payload_bytes(element_count); }

bool Fp32Codec::encode(ConstView x, const BlockState&, MutableBytes out) const {
  STARLING_CHECK(x.space == MemorySpace::kHost);
  STARLING_CHECK(out.size() == payload_bytes(x.count));
  return f32_to_bytes(x.data, x.count, out.data());
}

}  // namespace starling
