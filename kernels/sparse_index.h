// How an index lies in bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace starling {

inline constexpr size_t kIndexBytes = 4;
static_assert(std::endian::native == std::endian::little, "indices are copied, not converted");

inline uint32_t load_index(const std::byte* indices, size_t j) {
  uint32_t index;
  std::memcpy(&index, indices + j * kIndexBytes, sizeof index);
  return index;
}

}  // namespace starling
