// The payloads of the dense codecs: element_count little-endian values one after the other, nothing else. All finite.
//   fp32   IEEE binary32
//   bf16   bfloat16, the upper half of an IEEE binary32
//   fp16   IEEE binary16
#pragma once

#include <bit>
#include <cstddef>
#include <limits>

namespace starling::dense_format {

inline constexpr size_t kFp32Bytes = 4;
inline constexpr size_t kBf16Bytes = 2;
inline constexpr size_t kFp16Bytes = 2;

static_assert(sizeof(float) == kFp32Bytes && std::numeric_limits<float>::is_iec559);
static_assert(std::endian::native == std::endian::little, "payloads are copied, not converted");

}  // namespace starling::dense_format
