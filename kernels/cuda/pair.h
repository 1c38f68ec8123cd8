// CUDA twins of the apply loops of kernels/pair.h. All pointers are device pointers, the payloads aligned to their
// value type; `stream` is a cudaStream_t; the call returns once the work is put on it. Same bits as the host loops.
#pragma once

#include <cstddef>

namespace starling {

void pair_apply_f32_cuda(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x,
                         void* stream);
void pair_apply_bf16_cuda(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x,
                          void* stream);
void pair_apply_fp16_cuda(float coefficient, const std::byte* own, const std::byte* peer, size_t count, float* x,
                          void* stream);

}  // namespace starling
