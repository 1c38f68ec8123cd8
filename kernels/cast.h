// float vectors to payload bytes and back-checks, one pass each. Bytes are little-endian, of any alignment.
// Shape: `count` elements. Overlap: none. Host memory; twins of what writes and of bf16_to_f32 in kernels/cuda/cast.h.
// Same bits everywhere.
#pragma once

#include <cstddef>

namespace starling {

// Copies 4 * count bytes. False if a NaN or an infinity was among them (the copy is made all the same).
[[nodiscard]] bool f32_to_bytes(const float* x, size_t count, std::byte* out);

// Rounds to bfloat16, half to even, 2 * count bytes. A finite value too large to round down becomes the largest
// finite bfloat16, never an infinity; a NaN stays a NaN. False if a NaN or an infinity was among them.
[[nodiscard]] bool f32_to_bf16(const float* x, size_t count, std::byte* out);

// Rounds to IEEE binary16 in the same way: half to even, too large a finite value becomes +-65504.
[[nodiscard]] bool f32_to_fp16(const float* x, size_t count, std::byte* out);

// Are all `count` values of these bytes finite?
[[nodiscard]] bool all_finite_f32(const std::byte* bytes, size_t count);
[[nodiscard]] bool all_finite_bf16(const std::byte* bytes, size_t count);
[[nodiscard]] bool all_finite_fp16(const std::byte* bytes, size_t count);

// The values of bytes as f32_to_bf16 writes them.
void bf16_to_f32(const std::byte* bytes, size_t count, float* out);

}  // namespace starling
