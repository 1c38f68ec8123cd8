#include "kernels/cuda/dense.h"

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/terms.cuh"

namespace starling {
namespace {
using namespace cuda;

__device__ inline float value_of(float stored) { return stored; }
__device__ inline float value_of(uint16_t bf16) { return __uint_as_float(uint32_t{bf16} << 16); }

constexpr unsigned kSums = 2 * kLoads;  // that a thread adds up at a time; values may be only two bytes

template <typename Stored>
__device__ void add_term(const DenseTerm& term, const TileShare& share, float (&sums)[kSums]) {
  const auto* const values = reinterpret_cast<const Stored*>(term.values);
  Stored stored[kSums];
  for (unsigned l = 0; l < kSums; ++l) stored[l] = share.has(l) ? values[share.at(l)] : Stored{0};
  for (unsigned l = 0; l < kSums; ++l) sums[l] = __fadd_rn(sums[l], __fmul_rn(term.weight, value_of(stored[l])));
}

// Adds what the terms say of an element, one after the other, to 0 or to what is there.
__global__ void dense_merge_kernel(Terms<DenseTerm> terms, bool from_zero, float* out, size_t count) {
  each_tile<kSums>(count, [&](const TileShare& share) {
    float sums[kSums];
    for (unsigned l = 0; l < kSums; ++l) sums[l] = from_zero || !share.has(l) ? 0.0f : out[share.at(l)];
    for (unsigned t = 0; t < terms.count; ++t) {
      if (terms.each[t].is_bf16)
        add_term<uint16_t>(terms.each[t], share, sums);
      else
        add_term<float>(terms.each[t], share, sums);
    }
    for (unsigned l = 0; l < kSums; ++l) {
      if (share.has(l)) out[share.at(l)] = sums[l];
    }
  });
}

}  // namespace

void dense_axpy_cuda(const DenseTerm& term, float* y, size_t count, void* stream) {
  if (count == 0) return;
  launch("dense_axpy", dense_merge_kernel, blocks_for_elements(count, kSums), kThreads, 0, stream,
         Terms<DenseTerm>{{term}, 1}, false, y, count);
}

void dense_merge_cuda(std::span<const DenseTerm> terms, float* out, size_t count, void* stream) {
  if (count == 0) return;
  if (terms.empty()) return zero_async(out, count * sizeof(float), stream);
  launch_terms(terms, [&](const Terms<DenseTerm>& some, bool from_zero) {
    launch("dense_merge", dense_merge_kernel, blocks_for_elements(count, kSums), kThreads, 0, stream, some, from_zero,
           out, count);
  });
}

}  // namespace starling
