#include "gossip/net/hash.h"

#include <xxhash.h>
#ifdef __x86_64__
#include <xxh_x86dispatch.h>   // the same digests by the widest vectors this processor has
#endif

namespace starling {

std::array<uint8_t, 16> xxh3_128(std::span<const std::byte> bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  std::array<uint8_t, 16> digest;
  for (size_t i = 0; i < digest.size(); ++i) digest[i] = canonical.digest[i];
  return digest;
}

uint64_t xxh3_64(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace starling
