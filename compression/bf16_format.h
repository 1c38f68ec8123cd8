// The bf16 payload: element_count little-endian bfloat16 (the upper half of an IEEE float), nothing else. All finite.
#pragma once

#include <cstddef>

namespace starling::bf16_format {

inline constexpr size_t kBytesPerElement = 2;

constexpr size_t payload_bytes(size_t element_count) { return element_count * kBytesPerElement; }

}  // namespace starling::bf16_format
