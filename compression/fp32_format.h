// The fp32 payload: element_count little-endian IEEE floats, nothing else. All finite.
#pragma once

#include <cstddef>
#include <limits>

namespace starling::fp32_format {

inline constexpr size_t kBytesPerElement = 4;

static_assert(sizeof(float) == kBytesPerElement && std::numeric_limits<float>::is_iec559);

constexpr size_t payload_bytes(size_t element_count) { return element_count * kBytesPerElement; }

}  // namespace starling::fp32_format
