// Payloads of values of one size each, added up where they lie: bytes as f32_to_bytes() or f32_to_bf16() writes them,
// of any alignment. Host memory. Overlap: none. Same bits everywhere: one multiply, one add for each element.
#pragma once

#include <cstddef>
#include <span>

namespace starling {

struct DenseTerm {
  float weight = 0;
  const std::byte* values = nullptr;  // little-endian
  bool is_bf16 = false;               // else fp32
};

// y[i] += weight * value i.
void dense_axpy(const DenseTerm& term, float* y, size_t count);

// out[i] = the sum of weight * value i over the terms, from zero in the order given: the bits that dense_axpy() leaves
// in zeros, one term after the other. Up to four terms of one size, one behind the other, are added while an element's
// sum is in a register.
void dense_merge(std::span<const DenseTerm> terms, float* out, size_t count);

}  // namespace starling
