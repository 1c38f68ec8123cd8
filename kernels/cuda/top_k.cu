#include "kernels/cuda/top_k.h"

#include "kernels/check.h"
#include "kernels/cuda/scan.cuh"

// A radix select: the magnitude of the k-th largest is found digit by digit, from its highest bits down, by counting
// how often each digit stands behind those found before. Then each warp counts what it will write of a segment of its
// own, and writes it behind what the warps before it write: so the indices ascend.
namespace starling {
namespace {
using namespace cuda;

constexpr unsigned kBins = 2048;
constexpr unsigned kOwnBins = kBins / kThreads;
static_assert(kBins % kThreads == 0, "each thread owns as many bins as any other");
constexpr uint32_t kNonFiniteDigit = 0x7F800000u >> 20;   // of the first digit
constexpr uint32_t kLoads = 4;   // of a lane before it looks at them: one at a time does not keep the memory busy

// The 31 bits of a magnitude, as digits.
struct Digit {
  int shift, bits;
};
constexpr Digit kDigits[] = {{20, 11}, {10, 10}, {0, 10}};

struct State {
  uint32_t threshold;   // the digits found so far; in the end the magnitude of the k-th largest
  uint32_t wanted;      // how many of those that begin with these digits are taken
  uint32_t chosen;      // of all elements
  uint32_t found;       // chosen, or kTopKNotFinite
};

// Elements above the threshold in the lower half, those that equal it in the upper: one addition adds both.
using Pair = unsigned long long;
__device__ inline Pair pair_of(uint32_t larger, uint32_t equal) { return Pair{equal} << 32 | larger; }
__device__ inline uint32_t larger_of(Pair pair) { return static_cast<uint32_t>(pair); }
__device__ inline uint32_t equal_of(Pair pair) { return static_cast<uint32_t>(pair >> 32); }

static_assert(kBins * sizeof(uint32_t) + sizeof(State) <= 16384, "kTopKScratchBytes");

// Zeros are never taken, and not counted.
__global__ void count_digits_kernel(const float* x, size_t count, Digit digit, const State* state, uint32_t* bins) {
  SHARED_ARRAY(uint32_t, own, kBins);
  for (unsigned bin = threadIdx.x; bin < kBins; bin += kThreads) own[bin] = 0;
  __syncthreads();
  const uint32_t known = state->threshold;
  for (size_t i = first_index(); i < count; i += index_stride()) {
    const uint32_t magnitude = magnitude_bits(x[i]);
    if (magnitude == 0 || magnitude >> digit.shift >> digit.bits != known) continue;
    atomicAdd(&own[(magnitude >> digit.shift) & ((1u << digit.bits) - 1u)], 1u);
  }
  __syncthreads();
  for (unsigned bin = threadIdx.x; bin < kBins; bin += kThreads) {
    if (own[bin] != 0) atomicAdd(&bins[bin], own[bin]);
  }
}

// One block. Threads own bins from the highest down, so that what lies before a thread is what lies above its bins.
__global__ void choose_digit_kernel(Digit digit, bool first, uint32_t k, uint32_t* bins, State* state) {
  SHARED_ARRAY(uint32_t, nonfinite, 1);
  if (threadIdx.x == 0) nonfinite[0] = 0;
  const State before = *state;
  const unsigned top = kBins - 1 - threadIdx.x * kOwnBins;
  uint32_t counts[kOwnBins], own = 0;
  for (unsigned b = 0; b < kOwnBins; ++b) {
    counts[b] = bins[top - b];
    bins[top - b] = 0;
    own += counts[b];
  }
  uint32_t total = 0;
  uint32_t above = block_sum_before(own, &total);   // its barrier also comes after the reads of *state
  for (unsigned b = 0; b < kOwnBins && first; ++b) {
    if (top - b >= kNonFiniteDigit && counts[b] != 0) atomicMax(&nonfinite[0], 1u);
  }
  __syncthreads();
  const uint32_t wanted = !first ? before.wanted : nonfinite[0] != 0 ? 0 : min(k, total);
  if (first && threadIdx.x == 0) {
    state->chosen = wanted;
    state->found = nonfinite[0] != 0 ? kTopKNotFinite : wanted;
  }
  for (unsigned b = 0; b < kOwnBins; ++b) {
    if (above < wanted && above + counts[b] >= wanted) {   // in one bin of one thread, if any is wanted
      state->threshold = before.threshold << digit.bits | (top - b);
      state->wanted = wanted - above;
    }
    above += counts[b];
  }
}

__global__ void count_chosen_kernel(const float* x, Segments segments, const State* state, Pair* warps) {
  const uint32_t threshold = state->threshold;
  const size_t warp = warp_of_grid();
  const size_t end = segment_begin(segments, warp + 1);
  uint32_t larger = 0, equal = 0;
  for (size_t i = segment_begin(segments, warp) + lane_of(); i < end; i += 32) {
    const uint32_t magnitude = magnitude_bits(x[i]);
    larger += magnitude > threshold;
    equal += magnitude == threshold;
  }
  larger = warp_sum(larger);
  equal = warp_sum(equal);
  if (first_in_warp()) warps[warp] = pair_of(larger, equal);
}

// One block.
__global__ void add_up_warps_kernel(Pair* warps, unsigned warp_count, const State* state, uint32_t* found) {
  add_up_warps(warps, warp_count);
  if (threadIdx.x == 0) *found = state->found;
}

__global__ void write_chosen_kernel(const float* x, Segments segments, const State* state, const Pair* warps,
                                    uint32_t* indices) {
  const State chosen = *state;
  if (chosen.chosen == 0) return;
  const size_t warp = warp_of_grid();
  const size_t end = segment_begin(segments, warp + 1);
  const uint32_t below = (1u << lane_of()) - 1u;   // the lanes before this one
  uint32_t larger_before = larger_of(warps[warp]), equal_before = equal_of(warps[warp]);
  for (size_t base = segment_begin(segments, warp); base < end; base += 32 * kLoads) {
    uint32_t magnitudes[kLoads];
    for (uint32_t load = 0; load < kLoads; ++load) {
      const size_t i = base + 32 * load + lane_of();
      magnitudes[load] = i < end ? magnitude_bits(x[i]) : 0;
    }
    for (uint32_t load = 0; load < kLoads; ++load) {
      const bool larger = magnitudes[load] > chosen.threshold, equal = magnitudes[load] == chosen.threshold;
      const uint32_t either = __ballot_sync(0xFFFFFFFFu, larger || equal);
      if (either == 0) continue;   // the same for the whole warp
      const uint32_t equals = __ballot_sync(0xFFFFFFFFu, equal);
      const uint32_t equal_rank = equal_before + __popc(equals & below);
      if (larger || (equal && equal_rank < chosen.wanted)) {
        const uint32_t larger_rank = larger_before + __popc(either & ~equals & below);
        indices[larger_rank + min(equal_rank, chosen.wanted)] = static_cast<uint32_t>(base + 32 * load + lane_of());
      }
      larger_before += __popc(either & ~equals);
      equal_before += __popc(equals);
    }
  }
}

}  // namespace

void top_k_cuda(const float* x, size_t count, size_t k, std::byte* scratch, uint32_t* indices, uint32_t* found,
                void* stream) {
  STARLING_CHECK(count <= UINT32_MAX);
  if (count == 0) return zero_async(found, sizeof *found, stream);
  constexpr size_t kHeadBytes = kBins * sizeof(uint32_t) + sizeof(State);
  auto* const bins = reinterpret_cast<uint32_t*>(scratch);
  auto* const state = reinterpret_cast<State*>(bins + kBins);
  auto* const warps = reinterpret_cast<Pair*>(scratch + kHeadBytes);
  const auto most = static_cast<uint32_t>(k < count ? k : count);
  const Segments segments(count);
  zero_async(scratch, kHeadBytes, stream);
  for (const Digit& digit : kDigits) {
    launch("top_k_count_digits", count_digits_kernel, segments.blocks, kThreads, 0, stream, x, count, digit, state,
           bins);
    launch("top_k_choose_digit", choose_digit_kernel, 1, kThreads, 0, stream, digit, &digit == kDigits, most, bins,
           state);
  }
  launch("top_k_count_chosen", count_chosen_kernel, segments.blocks, kThreads, 0, stream, x, segments, state, warps);
  launch("top_k_add_up_warps", add_up_warps_kernel, 1, kThreads, 0, stream, warps, segments.warps, state, found);
  launch("top_k_write_chosen", write_chosen_kernel, segments.blocks, kThreads, 0, stream, x, segments, state, warps,
         indices);
}

}  // namespace starling
