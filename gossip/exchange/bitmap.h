// Sets of block indices in wire form: block i is bit i % 8 of byte i / 8; bits past the last block are zero.
#pragma once

#include <bit>
#include <cstddef>

#include "gossip/net/message.h"

namespace starling {

inline Bitmap make_bitmap(size_t block_count) { return Bitmap((block_count + 7) / 8, 0); }

// REQUIRES: index is inside the bitmap.
inline bool test_bit(const Bitmap& bits, size_t index) { return (bits[index / 8] >> (index % 8)) & 1; }
inline void set_bit(Bitmap& bits, size_t index) { bits[index / 8] |= static_cast<uint8_t>(1u << (index % 8)); }

inline size_t count_bits(const Bitmap& bits) {
  size_t count = 0;
  for (uint8_t byte : bits) count += static_cast<size_t>(std::popcount(byte));
  return count;
}

// Validates a peer's bitmap: exactly as long as `block_count` blocks need, and no bit set past the last block.
inline bool fits(const Bitmap& bits, size_t block_count) {
  if (bits.size() != (block_count + 7) / 8) return false;
  return block_count % 8 == 0 || (bits.back() >> (block_count % 8)) == 0;
}

inline bool subset(const Bitmap& inner, const Bitmap& outer) {
  if (inner.size() != outer.size()) return false;
  for (size_t i = 0; i < inner.size(); ++i) {
    if ((inner[i] & ~outer[i]) != 0) return false;
  }
  return true;
}

// Empty when the lengths differ, because the bitmaps then belong to different layouts.
inline Bitmap intersection(const Bitmap& a, const Bitmap& b) {
  if (a.size() != b.size()) return {};
  Bitmap both(a.size());
  for (size_t i = 0; i < a.size(); ++i) both[i] = a[i] & b[i];
  return both;
}

}  // namespace starling
