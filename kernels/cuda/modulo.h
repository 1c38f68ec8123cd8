// CUDA twins of the encode and apply loops of kernels/modulo.h. All pointers are device pointers; `stream` is a
// cudaStream_t; the call returns once the work is put on it. Same bits as the host loops.
#pragma once

#include <cstddef>

#include "kernels/modulo.h"

namespace starling {

// REQUIRES: *result zeroed on the stream before.
template <int kBits>
void modulo_encode_cuda(const float* x, size_t count, int exponent, std::byte* codes, ModuloEncoded* result,
                        void* stream);

template <int kBits>
void modulo_apply_cuda(float factor, const std::byte* own, int own_shift, const std::byte* peer, int peer_shift,
                       size_t count, float* x, void* stream);

}  // namespace starling
