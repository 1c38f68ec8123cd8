// CUDA twins of kernels/cast.h. All pointers are device pointers; `stream` is a cudaStream_t; the call returns once
// the work is put on the stream. Same bits as the host loops.
#pragma once

#include <cstddef>
#include <cstdint>

namespace starling {

// Raises *max_abs_bits to the float bits of the largest |x|: above 0x7F7FFFFF if a NaN or an infinity is there.
// REQUIRES: *max_abs_bits zeroed on the stream before.
void max_abs_bits_cuda(const float* x, size_t count, uint32_t* max_abs_bits, void* stream);

// The same, and writes count bfloat16. REQUIRES: `out` aligned to 2 bytes.
void f32_to_bf16_cuda(const float* x, size_t count, std::byte* out, uint32_t* max_abs_bits, void* stream);

// Or count binary16, as f32_to_fp16 does. REQUIRES: as above.
void f32_to_fp16_cuda(const float* x, size_t count, std::byte* out, uint32_t* max_abs_bits, void* stream);

// bfloat16 and back. REQUIRES: `bytes` aligned to 2 bytes.
void bf16_to_f32_cuda(const std::byte* bytes, size_t count, float* out, void* stream);

}  // namespace starling
