#include "compression/modulo8.h"
#include "compression/modulo8_encode.h"
#include "compression/modulo8_format.h"
#include "kernels/check.h"
#include "kernels/modulo.h"
#include "kernels/vector_ops.h"

namespace starling {

size_t Modulo8Codec::payload_bytes_max(size_t element_count) const {
  return modulo8_format::payload_bytes(element_count);
}

std::unique_ptr<CodecMemory> Modulo8Codec::make_memory(size_t) const { return std::make_unique<Modulo8Memory>(); }

std::optional<size_t> Modulo8Codec::encode(ConstView x, const EncodeContext& context, MutableBytes out) const {
  STARLING_CHECK(x.space == MemorySpace::kHost);
  STARLING_CHECK(out.size() == payload_bytes_max(x.count));
  const MutableBytes codes = out.subspan(modulo8_format::kHeaderBytes);
  const auto header = modulo8_encode(
      context, [&] { return max_abs(x.data, x.count); },
      [&](int exponent) { return modulo_encode(x.data, x.count, exponent, codes.data()); });
  if (!header) return std::nullopt;
  modulo8_format::write_header(*header, out);
  return out.size();
}

}  // namespace starling
