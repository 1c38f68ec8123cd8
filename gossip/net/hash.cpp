#include "gossip/net/hash.h"

#include <cstring>

#include <xxhash.h>
#ifdef __x86_64__
#include <xxh_x86dispatch.h>  // the same digests by the widest vectors this processor has
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

uint64_t secret_number(uint64_t secret, std::span<const std::byte> about) {
  Blake2b256 hash;
  hash.update(std::as_bytes(std::span(&secret, 1)));
  hash.update(about);
  const auto digest = hash.finish();
  uint64_t number;
  std::memcpy(&number, digest.data(), sizeof number);
  return number ? number : 1;
}

uint64_t secret_number(uint64_t secret, uint64_t about) {
  return secret_number(secret, std::as_bytes(std::span(&about, 1)));
}

}  // namespace starling
