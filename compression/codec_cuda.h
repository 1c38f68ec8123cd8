// Codecs over params in GPU memory. Built only with CUDA.
#pragma once

#include <cstddef>
#include <memory>

#include "compression/codec.h"

namespace starling {

// A codec without a twin works where params lie in host memory only.
bool has_cuda_twin(CodecKind kind);

// Of the payloads that a pass adds, so many bytes lie in pinned memory and on the GPU at a time, or one pair of them.
// Only tests change it.
inline size_t cuda_term_bytes_max = size_t{64} << 20;

// Encodes and applies on the GPU that is current now; checks and pairs payloads, which lie in host memory, with
// `host`. The caller has finished what it does to the params on other streams before a call; when a call returns,
// its work is done. Throws std::runtime_error without a usable GPU, or for a codec without a twin.
std::unique_ptr<Codec> make_cuda_codec(std::unique_ptr<Codec> host);

}  // namespace starling
