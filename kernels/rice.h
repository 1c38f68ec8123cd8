// Ascending indices as Golomb-Rice codes of their gaps (Golomb 1966; Rice 1979), in two streams so that neither is read
// bit by bit. One has the low bits of each gap, the other how often 2^bits fits into it, as so many zeros and a one.
//   low bits   bits * count bits, the first index first, least significant bits first, then zeros up to a byte
//   unary      as many bytes as they need; the last one is not zero
// The gap of an index is index - previous - 1, of the first one the index itself.
// Elements chosen at random with probability p have an entropy of about log2(1/p) + 1.44 bits each; this takes at most
// .12 more where p is below a tenth, and .03 at 1 %. Host memory, scalar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace starling {

// The best bits for so many indices below `limit`, at most 31.
unsigned rice_bits(size_t count, size_t limit);

// No ascending indices below `limit` take more bytes.
size_t rice_bytes_max(size_t count, size_t limit, unsigned bits);
size_t rice_low_bytes(size_t count, unsigned bits);

// Writes both streams, one after the other, and returns how many bytes the second has. REQUIRES: the indices ascend;
// out has room for rice_bytes_max().
size_t rice_encode(const uint32_t* indices, size_t count, unsigned bits, std::byte* out);

// Reads both streams. False if these are not the bytes that rice_encode() writes of `count` indices below `limit`; then
// the indices are of no use. REQUIRES: bytes has rice_low_bytes() + unary_bytes.
[[nodiscard]] bool rice_decode(const std::byte* bytes, size_t unary_bytes, size_t count, unsigned bits, size_t limit,
                               uint32_t* indices);

}  // namespace starling
