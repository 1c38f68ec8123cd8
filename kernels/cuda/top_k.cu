#include "kernels/cuda/top_k.h"

#include "kernels/check.h"
#include "kernels/cuda/scan.cuh"

// A radix select: the magnitude of the k-th largest is found digit by digit, from its highest bits down, by counting
// how often each digit stands behind those found before. Each warp reads a segment of its own. Once the first digit is
// found, it lists what may still be chosen, so that all later passes read little. At last it counts what it will write,
// and writes it behind what the warps before it write: so the indices ascend.
namespace starling {
namespace {
using namespace cuda;

constexpr unsigned kBins = 2048;
constexpr unsigned kOwnBins = kBins / kThreads;
static_assert(kBins % kThreads == 0, "each thread owns as many bins as any other");
constexpr uint32_t kNonFiniteDigit = 0x7F800000u >> 20;  // of the first digit
constexpr size_t kListShare = 8;  // a list has room for one of so many elements; a segment with more is read again

// The 31 bits of a magnitude, as digits.
struct Digit { int shift, bits; };
constexpr Digit kDigits[] = {{20, 11}, {10, 10}, {0, 10}};

struct State {
  uint32_t threshold;  // the digits found so far; in the end the magnitude of the k-th largest
  uint32_t wanted;     // how many of those that begin with these digits are taken
  uint32_t chosen;     // of all elements
  uint32_t found;      // chosen, or kTopKNotFinite
};

// Elements above the threshold in the lower half, those that equal it in the upper: one addition adds both.
using Pair = unsigned long long;
__device__ inline Pair pair_of(uint32_t larger, uint32_t equal) { return Pair{equal} << 32 | larger; }
__device__ inline uint32_t larger_of(Pair pair) { return static_cast<uint32_t>(pair); }
__device__ inline uint32_t equal_of(Pair pair) { return static_cast<uint32_t>(pair >> 32); }

__device__ inline uint32_t lanes_below() { return (1u << lane_of()) - 1u; }

// What each warp may choose from.
struct Candidates {
  Candidates(const float* of, size_t count) : x(of), segments(count), room(segments.each / kListShare) {}
  size_t bytes() const { return segments.warps * (1 + room) * sizeof(uint32_t); }
  void place(std::byte* scratch) {
    found = reinterpret_cast<uint32_t*>(scratch);
    lists = found + segments.warps;
  }

  const float* x;
  Segments segments;
  size_t room;                // of a list
  uint32_t* found = nullptr;  // how many a warp may choose from, also where its list has no room for them
  uint32_t* lists = nullptr;  // their indices, ascending
};

// Calls see(indices, magnitudes) with kLoads elements of each lane: of the segment, or of the list. Where there is none
// the magnitude is 0, which nobody takes. All lanes call it equally often.
template <class See>
__device__ void each_candidate(const Candidates& candidates, bool listed, const See& see) {
  const size_t warp = warp_of_grid();
  const auto walk = [&](size_t begin, size_t end, const auto& index_at) {
    for (size_t base = begin; base < end; base += 32 * kLoads) {
      const auto here = static_cast<uint32_t>(min(end - base, size_t{32 * kLoads}));
      uint32_t indices[kLoads], magnitudes[kLoads];
      for (unsigned load = 0; load < kLoads; ++load) {
        indices[load] = 32 * load + lane_of() < here ? index_at(base + 32 * load + lane_of()) : 0;
      }
      for (unsigned load = 0; load < kLoads; ++load) {
        magnitudes[load] = 32 * load + lane_of() < here ? magnitude_bits(candidates.x[indices[load]]) : 0;
      }
      see(indices, magnitudes);
    }
  };
  const uint32_t found = listed ? candidates.found[warp] : 0;
  if (listed && found <= candidates.room) {
    const uint32_t* const list = candidates.lists + warp * candidates.room;
    walk(0, found, [&](size_t at) { return list[at]; });
  } else {
    walk(segment_begin(candidates.segments, warp), segment_begin(candidates.segments, warp + 1),
         [](size_t at) { return static_cast<uint32_t>(at); });
  }
}
using Loaded = const uint32_t (&)[kLoads];

// Zeros are never taken, and not counted.
__global__ void __launch_bounds__(kThreads, kAllAtOnce)
    count_digits_kernel(Candidates candidates, Digit digit, bool first, const State* state, uint32_t* bins) {
  SHARED_ARRAY(uint32_t, own, kBins);
  for (unsigned bin = threadIdx.x; bin < kBins; bin += kThreads) own[bin] = 0;
  __syncthreads();
  const uint32_t known = state->threshold;
  each_candidate(candidates, !first, [&](Loaded, Loaded magnitudes) {
    for (const uint32_t magnitude : magnitudes) {
      if (magnitude == 0 || magnitude >> digit.shift >> digit.bits != known) continue;
      atomicAdd(&own[(magnitude >> digit.shift) & ((1u << digit.bits) - 1u)], 1u);
    }
  });
  __syncthreads();
  for (unsigned bin = threadIdx.x; bin < kBins; bin += kThreads) {
    if (own[bin] != 0) atomicAdd(&bins[bin], own[bin]);
  }
}

// Lists those whose first digit is that of the k-th largest, or a larger one.
__global__ void __launch_bounds__(kThreads, kAllAtOnce)
    list_candidates_kernel(Candidates candidates, const State* state) {
  const uint32_t least = state->chosen == 0 ? UINT32_MAX : max(state->threshold << kDigits[0].shift, 1u);
  const size_t warp = warp_of_grid();
  uint32_t* const list = candidates.lists + warp * candidates.room;
  const uint32_t below = lanes_below();
  uint32_t found = 0;
  each_candidate(candidates, false, [&](Loaded indices, Loaded magnitudes) {
    for (unsigned load = 0; load < kLoads; ++load) {
      const bool taken = magnitudes[load] >= least;
      const uint32_t all = __ballot_sync(0xFFFFFFFFu, taken);
      if (all == 0) continue;  // the same for the whole warp
      const uint32_t at = found + __popc(all & below);
      if (taken && at < candidates.room) list[at] = indices[load];
      found += __popc(all);
    }
  });
  if (first_in_warp()) candidates.found[warp] = found;
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
  uint32_t above = block_sum_before(own, &total);  // its barrier also comes after the reads of *state
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
    if (above < wanted && above + counts[b] >= wanted) {  // in one bin of one thread, if any is wanted
      state->threshold = before.threshold << digit.bits | (top - b);
      state->wanted = wanted - above;
    }
    above += counts[b];
  }
}

__global__ void __launch_bounds__(kThreads, kAllAtOnce)
    count_chosen_kernel(Candidates candidates, const State* state, Pair* warps) {
  const uint32_t threshold = state->threshold;
  uint32_t larger = 0, equal = 0;
  each_candidate(candidates, true, [&](Loaded, Loaded magnitudes) {
    for (const uint32_t magnitude : magnitudes) {
      larger += magnitude > threshold;
      equal += magnitude == threshold;
    }
  });
  larger = warp_sum(larger);
  equal = warp_sum(equal);
  if (first_in_warp()) warps[warp_of_grid()] = pair_of(larger, equal);
}

// One block.
__global__ void add_up_warps_kernel(Pair* warps, unsigned warp_count, const State* state, uint32_t* found) {
  add_up(warps, warp_count);
  if (threadIdx.x == 0) *found = state->found;
}

__global__ void __launch_bounds__(kThreads, kAllAtOnce)
    write_chosen_kernel(Candidates candidates, const State* state, const Pair* warps, uint32_t* out) {
  const State chosen = *state;
  if (chosen.chosen == 0) return;
  const uint32_t below = lanes_below();
  const Pair before = warps[warp_of_grid()];
  uint32_t larger_before = larger_of(before), equal_before = equal_of(before);
  each_candidate(candidates, true, [&](Loaded indices, Loaded magnitudes) {
    for (unsigned load = 0; load < kLoads; ++load) {
      const bool larger = magnitudes[load] > chosen.threshold, equal = magnitudes[load] == chosen.threshold;
      const uint32_t either = __ballot_sync(0xFFFFFFFFu, larger || equal);
      if (either == 0) continue;  // the same for the whole warp
      const uint32_t equals = __ballot_sync(0xFFFFFFFFu, equal);
      const uint32_t equal_rank = equal_before + __popc(equals & below);
      if (larger || (equal && equal_rank < chosen.wanted)) {
        const uint32_t larger_rank = larger_before + __popc(either & ~equals & below);
        out[larger_rank + min(equal_rank, chosen.wanted)] = indices[load];
      }
      larger_before += __popc(either & ~equals);
      equal_before += __popc(equals);
    }
  });
}

constexpr size_t kHeadBytes = kBins * sizeof(uint32_t) + sizeof(State);
static_assert(kHeadBytes % sizeof(Pair) == 0, "pairs lie behind");

}  // namespace

size_t top_k_scratch_bytes(size_t count) {
  if (count == 0) return 0;
  const Candidates candidates(nullptr, count);
  return kHeadBytes + candidates.segments.warps * sizeof(Pair) + candidates.bytes();
}

void top_k_cuda(const float* x, size_t count, size_t k, std::byte* scratch, uint32_t* indices, uint32_t* found,
                void* stream) {
  STARLING_CHECK(count <= UINT32_MAX);
  if (count == 0) return zero_async(found, sizeof *found, stream);
  auto* const bins = reinterpret_cast<uint32_t*>(scratch);
  auto* const state = reinterpret_cast<State*>(bins + kBins);
  auto* const warps = reinterpret_cast<Pair*>(scratch + kHeadBytes);
  const auto most = static_cast<uint32_t>(k < count ? k : count);
  Candidates candidates(x, count);
  candidates.place(reinterpret_cast<std::byte*>(warps + candidates.segments.warps));
  const int blocks = candidates.segments.blocks;
  zero_async(scratch, kHeadBytes, stream);
  for (const Digit& digit : kDigits) {
    const bool first = &digit == kDigits;
    launch("top_k_count_digits", count_digits_kernel, blocks, kThreads, 0, stream, candidates, digit, first, state,
           bins);
    launch("top_k_choose_digit", choose_digit_kernel, 1, kThreads, 0, stream, digit, first, most, bins, state);
    if (!first) continue;
    launch("top_k_list_candidates", list_candidates_kernel, blocks, kThreads, 0, stream, candidates, state);
  }
  launch("top_k_count_chosen", count_chosen_kernel, blocks, kThreads, 0, stream, candidates, state, warps);
  launch("top_k_add_up_warps", add_up_warps_kernel, 1, kThreads, 0, stream, warps, candidates.segments.warps, state,
         found);
  launch("top_k_write_chosen", write_chosen_kernel, blocks, kThreads, 0, stream, candidates, state, warps, indices);
}

}  // namespace starling
