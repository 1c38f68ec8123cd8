#include "compression/modulo8.h"
#include "compression/modulo8_encode.h"
#include "compression/modulo8_format.h"
#include "kernels/check.h"
#include "kernels/modulo.h"
#include "kernels/vector_ops.h"

namespace starling {

size_t Modulo8Codec::payload_bytes(size_t element_count) const { return modulo8_format::payload_bytes(element_count); }

bool Modulo8Codec::encode(ConstView x, const BlockState& state, MutableBytes out) const {
  STARLING_CHECK(x.space == MemorySpace::kHost);
  STARLING_CHECK(out.size() == payload_bytes(x.count));
  const MutableBytes codes = out.subspan(modulo8_format::kHeaderBytes);
  const auto header = modulo8_encode(
      state, [&] { return max_abs(x.data, x.count); },
      [&](int exponent) { return modulo_encode(x.data, x.count, exponent, codes.data()); });
  if (!header) return false;
  modulo8_format::write_header(*header, out);
  return true;
}

}  // namespace starling
