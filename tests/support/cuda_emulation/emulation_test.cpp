// One test for each misuse that the emulation promises to notice, and one for each thing that it promises to do right.
#include "emulation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda_runtime.h"
#include "kernels/cuda/launch.h"
#include "scheduler.h"

namespace {

constexpr unsigned kAll = 0xFFFFFFFFu;

class Emulation : public testing::Test {
 protected:
  Emulation() {
    emulation::reset();
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~Emulation() override {
    emulation::reset();
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    for (void* data : memory_) EXPECT_EQ(cudaFree(data), cudaSuccess);
    EXPECT_EQ(emulation::memory_in_use(), 0u);
  }

  template <typename T>
  T* room(size_t count) {
    void* data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, count * sizeof(T)), cudaSuccess);
    memory_.push_back(data);
    return static_cast<T*>(data);
  }
  template <typename T>
  T* zeros(size_t count) {
    T* const data = room<T>(count);
    EXPECT_EQ(cudaMemsetAsync(data, 0, count * sizeof(T), stream_), cudaSuccess);
    return data;
  }
  template <typename T>
  std::vector<T> read(const T* data, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), data, count * sizeof(T), cudaMemcpyDefault, stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return values;
  }
  template <typename... Params>
  void run(void (*kernel)(Params...), dim3 grid, dim3 block, std::type_identity_t<Params>... params) {
    emulation::launch("probe", kernel, grid, block, 0, stream_, params...);
    ASSERT_EQ(cudaGetLastError(), cudaSuccess);
  }
  // What waiting for the kernel says; empty if it is fine.
  template <typename... Params>
  std::string fault_of(void (*kernel)(Params...), dim3 grid, dim3 block, std::type_identity_t<Params>... params) {
    emulation::launch("probe", kernel, grid, block, 0, stream_, params...);
    if (cudaStreamSynchronize(stream_) == cudaSuccess) return "";
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
    return cudaGetErrorString(cudaErrorLaunchFailure);
  }

  cudaStream_t stream_ = nullptr;
  std::vector<void*> memory_;
};

#define EXPECT_SAYS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

// ---- What runs.
void ids_kernel(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[static_cast<size_t>(block) * blockDim.count() + thread] += block * 1000 + thread;
}

TEST_F(Emulation, EveryThreadOfEveryBlockRunsOnce) {
  unsigned* const out = zeros<unsigned>(24 * 30);
  run(ids_kernel, {4, 3, 2}, {5, 3, 2}, out);
  const auto got = read(out, 24 * 30);
  for (unsigned i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i / 30 * 1000 + i % 30);
}

void order_kernel(unsigned* next, unsigned* order) { order[atomicAdd(next, 1u)] = blockIdx.x * 1024 + threadIdx.x; }

TEST_F(Emulation, TheSeedDrawsTheOrderOfThreadsAndBlocks) {
  const auto order_of = [&](uint64_t seed) {
    unsigned* const next = zeros<unsigned>(1);
    unsigned* const order = room<unsigned>(96);
    emulation::seed_order(seed);
    run(order_kernel, 3, 32, next, order);
    return read(order, 96);
  };
  const auto first = order_of(1);
  EXPECT_EQ(order_of(1), first);
  EXPECT_NE(order_of(2), first);
  std::vector<unsigned> sorted = first;
  EXPECT_FALSE(std::is_sorted(first.begin(), first.begin() + 32)) << "the threads of a block";
  std::sort(sorted.begin(), sorted.end());
  for (unsigned i = 0; i < 96; ++i) EXPECT_EQ(sorted[i], i / 32 * 1024 + i % 32);
  std::set<unsigned> first_blocks;
  for (uint64_t seed = 0; seed < 20; ++seed) first_blocks.insert(order_of(seed)[0] / 1024);
  EXPECT_EQ(first_blocks.size(), 3u);
}

void reverse_kernel(float* x) {
  SHARED_ARRAY(float, first, 100);
  SHARED_ARRAY(float, second, 100);
  first[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  second[threadIdx.x] = first[99 - threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = second[threadIdx.x] + first[threadIdx.x];
}

TEST_F(Emulation, BarriersAndSharedArrays) {
  std::vector<float> x(100);
  std::iota(x.begin(), x.end(), 0.0f);
  float* const data = room<float>(100);
  ASSERT_EQ(cudaMemcpyAsync(data, x.data(), 400, cudaMemcpyDefault, stream_), cudaSuccess);
  run(reverse_kernel, 1, 100, data);
  EXPECT_EQ(read(data, 100), std::vector<float>(100, 99.0f));
}

void dynamic_kernel(unsigned* out) {
  DYNAMIC_SHARED(unsigned, values);
  values[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
}

TEST_F(Emulation, DynamicSharedMemory) {
  unsigned* const out = room<unsigned>(64);
  emulation::launch("dynamic", dynamic_kernel, 1, 64, 64 * sizeof(unsigned), stream_, out);
  const auto got = read(out, 64);
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(got[i], (i + 1) % 64);
}

void votes_kernel(int* out) {
  const int odd = threadIdx.x % 2;
  const int some = __syncthreads_or(threadIdx.x == 40), none = __syncthreads_or(0);
  const int every = __syncthreads_and(1), not_every = __syncthreads_and(threadIdx.x != 7);
  const int count = __syncthreads_count(odd);
  if (threadIdx.x == 0) {
    out[0] = some, out[1] = none, out[2] = every, out[3] = not_every, out[4] = count;
  }
}

TEST_F(Emulation, VotesOfABlock) {
  int* const out = room<int>(5);
  run(votes_kernel, 1, 50, out);
  const auto got = read(out, 5);
  EXPECT_NE(got[0], 0);
  EXPECT_EQ(got[1], 0);
  EXPECT_NE(got[2], 0);
  EXPECT_EQ(got[3], 0);
  EXPECT_EQ(got[4], 25);
}

void shuffles_kernel(int* out) {
  const int own = static_cast<int>(threadIdx.x);
  int* const mine = out + 7 * threadIdx.x;
  mine[0] = __shfl_sync(kAll, own, 5);
  mine[1] = __shfl_down_sync(kAll, own, 3);
  mine[2] = __shfl_up_sync(kAll, own, 3);
  mine[3] = __shfl_xor_sync(kAll, own, 9);
  mine[4] = __shfl_down_sync(kAll, own, 3, 8);
  mine[5] = static_cast<int>(__shfl_xor_sync(kAll, 1.5 * own, 1));                       // doubles too
  mine[6] = static_cast<int>(__shfl_sync(kAll, 1.5f * static_cast<float>(own), 3, 16));  // and floats
}

TEST_F(Emulation, Shuffles) {
  int* const out = room<int>(64 * 7);
  run(shuffles_kernel, 1, 64, out);
  const auto got = read(out, 64 * 7);
  for (int i = 0; i < 64; ++i) {
    const int warp = i / 32 * 32, lane = i % 32;
    const int* const mine = &got[static_cast<size_t>(7 * i)];
    EXPECT_EQ(mine[0], warp + 5);
    EXPECT_EQ(mine[1], lane + 3 < 32 ? i + 3 : i);
    EXPECT_EQ(mine[2], lane >= 3 ? i - 3 : i);
    EXPECT_EQ(mine[3], i ^ 9);
    EXPECT_EQ(mine[4], i % 8 + 3 < 8 ? i + 3 : i);
    EXPECT_EQ(mine[5], static_cast<int>(1.5 * (i ^ 1)));
    EXPECT_EQ(mine[6], static_cast<int>(1.5 * (i / 16 * 16 + 3)));
  }
}

void repeated_shuffle_kernel(unsigned* out) {
  unsigned sum = 0;
  for (unsigned i = 1; i < 5; ++i) sum += __shfl_xor_sync(kAll, threadIdx.x * i, 1);
  out[threadIdx.x] = sum;
}

TEST_F(Emulation, EachRoundOfALoopWaitsForItsOwnShuffle) {
  unsigned* const out = room<unsigned>(32);
  run(repeated_shuffle_kernel, 1, 32, out);
  const auto got = read(out, 32);
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(got[i], 10 * (i ^ 1));
}

void folds_kernel(unsigned* out) {
  const unsigned own = threadIdx.x;
  const unsigned half = own < 16 ? 0x0000FFFFu : 0xFFFF0000u;
  const unsigned values[] = {__ballot_sync(kAll, own % 3 == 0),
                             __any_sync(half, own == 20) != 0 ? 1u : 0u,
                             __all_sync(half, own < 16) != 0 ? 1u : 0u,
                             __reduce_add_sync(kAll, own),
                             __reduce_min_sync(half, own),
                             __reduce_max_sync(half, own),
                             __reduce_or_sync(half, own),
                             __reduce_and_sync(half, own),
                             __reduce_xor_sync(kAll, own)};
  for (unsigned i = 0; i < 9; ++i) out[own * 9 + i] = values[i];
}

TEST_F(Emulation, BallotsVotesAndFoldsOfAWarp) {
  unsigned* const out = room<unsigned>(32 * 9);
  run(folds_kernel, 1, 32, out);
  const auto got = read(out, 32 * 9);
  for (unsigned lane = 0; lane < 32; ++lane) {
    const bool low = lane < 16;
    const std::vector<unsigned> expected = {0x49249249u,     low ? 0u : 1u,   low ? 1u : 0u,  496, low ? 0u : 16u,
                                            low ? 15u : 31u, low ? 15u : 31u, low ? 0u : 16u, 0};
    for (unsigned i = 0; i < 9; ++i) EXPECT_EQ(got[lane * 9 + i], expected[i]) << lane << " " << i;
  }
}

void atomics_kernel(unsigned* u, int* i, unsigned long long* l, float* f, double* d) {
  const unsigned own = threadIdx.x;
  atomicAdd(u, 1u);
  atomicMax(u + 1, own);
  atomicMin(u + 2, own + 5);
  atomicOr(u + 3, 1u << own % 32);
  atomicAnd(u + 4, ~(1u << own % 8));
  atomicCAS(u + 5, 0u, own + 1);
  if (atomicExch(u + 6, 1u) == 0) atomicAdd(u + 7, 1u);
  atomicMin(i, -static_cast<int>(own));
  atomicAdd(l, 1ull << 33);
  atomicAdd(f, 0.5f);
  atomicAdd(d, 0.25);
}

TEST_F(Emulation, Atomics) {
  auto* const u = zeros<unsigned>(8);
  auto* const i = zeros<int>(1);
  auto* const l = zeros<unsigned long long>(1);
  auto* const f = zeros<float>(1);
  auto* const d = zeros<double>(1);
  ASSERT_EQ(cudaMemsetAsync(u + 2, 0xFF, 4, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(u + 4, 0xFF, 4, stream_), cudaSuccess);
  run(atomics_kernel, 2, 64, u, i, l, f, d);
  const auto got = read(u, 8);
  EXPECT_EQ(got[0], 128u);
  EXPECT_EQ(got[1], 63u);
  EXPECT_EQ(got[2], 5u);
  EXPECT_EQ(got[3], kAll);
  EXPECT_EQ(got[4], 0xFFFFFF00u);
  EXPECT_GT(got[5], 0u);
  EXPECT_EQ(got[7], 1u);
  EXPECT_EQ(read(i, 1)[0], -63);
  EXPECT_EQ(read(l, 1)[0], 128ull << 33);
  EXPECT_EQ(read(f, 1)[0], 64.0f);
  EXPECT_EQ(read(d, 1)[0], 32.0);
}

template <typename T>
concept AddsAtomically = requires(T* at) { atomicAdd(at, T{}); };
template <typename T>
concept ReducesByMinimum = requires(T value) { __reduce_min_sync(kAll, value); };

TEST_F(Emulation, WhatCudaLacksDoesNotCompile) {
  static_assert(AddsAtomically<unsigned long long> && AddsAtomically<float>);
  static_assert(!AddsAtomically<unsigned long> && !AddsAtomically<long> && !AddsAtomically<short>);
  static_assert(ReducesByMinimum<unsigned> && !ReducesByMinimum<int> && !ReducesByMinimum<float>);
}

void convert_kernel(int* out) {
  const float in[] = {2.5f, 3.5f, -2.5f, 3e9f, -3e9f, NAN, 2147483648.0f};
  out[threadIdx.x] = __float2int_rn(in[threadIdx.x]);
}

TEST_F(Emulation, ConversionsRoundAndSaturateAsOnTheDevice) {
  int* const out = room<int>(7);
  run(convert_kernel, 1, 7, out);
  EXPECT_EQ(read(out, 7), (std::vector<int>{2, 4, -2, 2147483647, -2147483647 - 1, 0, 2147483647}));
}

void arithmetic_kernel(int* bits, float* inverse) {
  const unsigned in[] = {0, 1, 0x80000000u, 0x00F00000u};
  bits[threadIdx.x] = __ffs(static_cast<int>(in[threadIdx.x]));
  inverse[threadIdx.x] = __frcp_rn(static_cast<float>(threadIdx.x) - 2);
}

TEST_F(Emulation, TheFirstBitCountsFromOneAndAnInverseIsRounded) {
  int* const bits = room<int>(4);
  float* const inverse = room<float>(4);
  run(arithmetic_kernel, 1, 4, bits, inverse);
  EXPECT_EQ(read(bits, 4), (std::vector<int>{0, 1, 32, 21}));
  EXPECT_EQ(read(inverse, 4), (std::vector<float>{-0.5f, -1, INFINITY, 1}));
}

void copy_shared_kernel(unsigned* out) {
  SHARED_ARRAY(unsigned, values, 32);
  if (threadIdx.x != 3) values[threadIdx.x] = 1;
  __syncthreads();
  out[blockIdx.x * 32 + threadIdx.x] = values[threadIdx.x];
  values[threadIdx.x] = 7;  // the next block must not find it
}

TEST_F(Emulation, FreshMemoryIsPoisoned) {
  unsigned* const out = room<unsigned>(96);
  EXPECT_EQ(read(out, 96), std::vector<unsigned>(96, kAll));
  run(copy_shared_kernel, 3, 32, out);
  for (size_t block = 0; block < 3; ++block) {
    EXPECT_EQ(read(out, 96)[32 * block + 3], kAll);
    EXPECT_EQ(read(out, 96)[32 * block + 4], 1u);
  }
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 8), cudaSuccess);
  EXPECT_EQ(*static_cast<const uint64_t*>(pinned), ~uint64_t{0});
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

// ---- What is wrong.
void barrier_in_branch_kernel() {
  if (threadIdx.x < 32) __syncthreads();
}
TEST_F(Emulation, ABarrierThatSomeThreadsNeverReach) {
  const std::string fault = fault_of(barrier_in_branch_kernel, 1, 64);
  EXPECT_SAYS(fault, "kernel probe, block 0, thread ");
  EXPECT_SAYS(fault, "32 threads have ended; 32 threads wait at the barrier emulation_test.cpp:");
}

void two_barriers_kernel() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
TEST_F(Emulation, TwoBarriersAtOnce) {
  EXPECT_SAYS(fault_of(two_barriers_kernel, 1, 64), "waits at another barrier than thread 0");
}

void barrier_against_shuffle_kernel() {
  if (threadIdx.x < 16)
    __syncthreads();
  else
    __shfl_sync(kAll, 1, 0);
}
TEST_F(Emulation, ADeadlockSaysWhoWaitsWhere) {
  const std::string fault = fault_of(barrier_against_shuffle_kernel, 1, 32);
  EXPECT_SAYS(fault, "16 threads wait at the barrier emulation_test.cpp:");
  EXPECT_SAYS(fault, "16 threads wait at the warp operation emulation_test.cpp:");
  EXPECT_SAYS(fault, "with mask 0xffffffff");
}

void foreign_mask_kernel() { __ballot_sync(0x0000FFFFu, 1); }
TEST_F(Emulation, ALaneOutsideItsOwnMask) {
  EXPECT_SAYS(fault_of(foreign_mask_kernel, 1, 32), "is not in the mask 0x0000ffff of its own warp operation");
}

void full_mask_kernel() { __ballot_sync(kAll, 1); }
TEST_F(Emulation, AMaskThatNamesMissingLanes) {
  EXPECT_SAYS(fault_of(full_mask_kernel, 1, 33), "thread 32 names lanes in the mask 0xffffffff that its warp does not");
}

void crossing_kernel() { __shfl_down_sync(threadIdx.x < 16 ? 0x0000FFFFu : 0xFFFF0000u, 1, 16); }
TEST_F(Emulation, AShuffleFromOutsideTheMask) {
  EXPECT_SAYS(fault_of(crossing_kernel, 1, 32), "which is not in its mask 0x0000ffff");
}

void nothing_kernel() {}
TEST_F(Emulation, ImpossibleLaunches) {
  const auto refused = [&](dim3 grid, dim3 block, size_t dynamic_bytes) {
    emulation::launch("probe", nothing_kernel, grid, block, dynamic_bytes, stream_);
    return cudaGetLastError() == cudaErrorInvalidConfiguration;
  };
  EXPECT_TRUE(refused(0, 32, 0));
  EXPECT_TRUE(refused(1, 0, 0));
  EXPECT_TRUE(refused(1, 1025, 0));
  EXPECT_TRUE(refused(1, {32, 33, 1}, 0));
  EXPECT_TRUE(refused(1, {1, 1, 65}, 0));
  EXPECT_TRUE(refused({1, 65536, 1}, 32, 0));
  EXPECT_TRUE(refused(1, 32, (48 << 10) + 1));
  EXPECT_FALSE(refused(1, 1024, 48 << 10));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);  // asked once, forgotten
}

TEST_F(Emulation, CopiesPastAnAllocation) {
  float* const data = room<float>(10);
  std::vector<float> host(20);
  EXPECT_EQ(cudaMemcpyAsync(data, host.data(), 41, cudaMemcpyDefault, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host.data(), data + 1, 40, cudaMemcpyDefault, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(data + 9, 0, 5, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(data, 0, 40, stream_), cudaSuccess);
}

TEST_F(Emulation, FreeingWhatIsNotThere) {
  void* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 8), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  (void)cudaGetLastError();
}

// ---- Streams.
void store_kernel(unsigned* at, unsigned value) { *at = value; }
void read_kernel(const unsigned* at, unsigned* seen) { *seen = *at; }

TEST_F(Emulation, WorkRunsWhenSomebodyWaits) {
  unsigned* const data = room<unsigned>(1);
  unsigned host = 5;
  run(store_kernel, 1, 1, data, 9u);
  ASSERT_EQ(cudaMemcpyAsync(&host, data, 4, cudaMemcpyDefault, stream_), cudaSuccess);
  EXPECT_EQ(host, 5u);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(host, 9u);
}

TEST_F(Emulation, FreeingWaitsAndEndingAStreamDoesNot) {
  unsigned host = 5;
  cudaStream_t other = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  unsigned* const data = room<unsigned>(1);
  emulation::launch("store", store_kernel, 1, 1, 0, other, data, 9u);
  ASSERT_EQ(cudaMemcpyAsync(&host, data, 4, cudaMemcpyDefault, other), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(other), cudaSuccess);
  EXPECT_NE(host, 9u) << "to destroy is not to wait";
  const auto wait_for_all = [] {
    void* more = nullptr;
    ASSERT_EQ(cudaMalloc(&more, 4), cudaSuccess);
    ASSERT_EQ(cudaFree(more), cudaSuccess);
  };
  wait_for_all();
  EXPECT_EQ(host, 9u);
  ASSERT_EQ(cudaMemsetAsync(data, 0, 4, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(&host, data, 4, cudaMemcpyDefault, stream_), cudaSuccess);
  wait_for_all();
  EXPECT_EQ(host, 0u);
}

class TwoStreams : public Emulation {
 protected:
  TwoStreams() { EXPECT_EQ(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking), cudaSuccess); }
  ~TwoStreams() override { EXPECT_EQ(cudaStreamDestroy(other_), cudaSuccess); }
  // What a reader on one stream sees of a writer on the other, over many orders.
  std::pair<int, int> seen_old_and_new(bool with_event) {
    int old = 0, fresh = 0;
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    for (uint64_t seed = 0; seed < 50; ++seed) {
      emulation::seed_order(seed);
      unsigned* const data = zeros<unsigned>(2);
      EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
      emulation::launch("store", store_kernel, 1, 1, 0, other_, data, 1u);
      EXPECT_EQ(cudaEventRecord(event, other_), cudaSuccess);
      if (with_event) {
        EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
        EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady) << "which the next launch would be blamed for";
        EXPECT_EQ(cudaStreamWaitEvent(stream_, event, 0), cudaSuccess);
      }
      run(read_kernel, 1, 1, data, data + 1);
      ++(read(data + 1, 1)[0] == 0 ? old : fresh);
      EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
      EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
    }
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    return {old, fresh};
  }
  cudaStream_t other_ = nullptr;
};

TEST_F(TwoStreams, RunInAnyOrder) {
  const auto [old, fresh] = seen_old_and_new(false);
  EXPECT_GT(old, 5);
  EXPECT_GT(fresh, 5);
}

TEST_F(TwoStreams, AnEventOrdersThem) { EXPECT_EQ(seen_old_and_new(true), std::pair(0, 50)); }

// A program that asks now and then, and never waits, sees the work done.
TEST_F(Emulation, WorkGoesOnForWhoAsksAfterIt) {
  unsigned* const data = room<unsigned>(1);
  unsigned host = 5;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync), cudaSuccess);
  run(store_kernel, 1, 1, data, 9u);
  ASSERT_EQ(cudaMemcpyAsync(&host, data, 4, cudaMemcpyDefault, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  int asked = 0;
  while (cudaEventQuery(event) == cudaErrorNotReady) ASSERT_LT(++asked, 1000);
  EXPECT_GT(asked, 0);
  EXPECT_EQ(host, 9u);
  (void)cudaGetLastError();
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventBlockingSync), cudaErrorInvalidValue) << "nobody needs times";
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(Emulation, AStreamOfAnotherDevice) {
  emulation::reset({.devices = 2});
  unsigned* const data = room<unsigned>(1);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  emulation::launch("store", store_kernel, 1, 1, 0, stream_, data, 1u);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(fault_of(store_kernel, 1, 1, data, 1u), "");
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
}

// ---- Machines in a bad state.
TEST_F(Emulation, NoDeviceAndAnOldDriver) {
  int count = -1;
  emulation::reset({.devices = 0});
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  emulation::reset({.driver = cudaErrorInsufficientDriver});
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInsufficientDriver), "cudaErrorInsufficientDriver");
}

TEST_F(Emulation, MemoryEnds) {
  emulation::reset({.memory_bytes = 1 << 20});
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, (1 << 20) + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(emulation::memory_in_use(), 0u);
  EXPECT_EQ(cudaMalloc(&data, 1 << 20), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST_F(Emulation, ALostGpuStaysLost) {
  unsigned* const data = zeros<unsigned>(1);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  emulation::machine.work_until_loss = 1;
  run(store_kernel, 1, 1, data, 1u);
  run(store_kernel, 1, 1, data, 2u);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
  EXPECT_SAYS(cudaGetErrorString(cudaErrorLaunchFailure), "fallen off the bus");
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 8), cudaErrorLaunchFailure);
  emulation::launch("store", store_kernel, 1, 1, 0, stream_, data, 3u);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  emulation::reset();
  EXPECT_EQ(read(data, 1)[0], 1u);
}

// ---- What the sanitizers must be able to see. Under the others these are no faults, or could not be seen.
#ifdef EMULATION_ASAN
void step_past_kernel(float* x) { x[threadIdx.x + 1] = 1; }
void step_past_shared_kernel(unsigned* out) {
  SHARED_ARRAY(unsigned, values, 32);
  values[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x + 1];
}
using EmulationDeathTest = Emulation;

TEST_F(EmulationDeathTest, OneElementPastAnAllocation) {
  float* const data = room<float>(32);
  EXPECT_DEATH(fault_of(step_past_kernel, 1, 32, data), "AddressSanitizer");
}
TEST_F(EmulationDeathTest, OneElementPastASharedArray) {
  unsigned* const out = room<unsigned>(32);
  EXPECT_DEATH(fault_of(step_past_shared_kernel, 1, 32, out), "AddressSanitizer");
}
TEST_F(EmulationDeathTest, TheHostReadsADevicePointer) {
  float* const data = room<float>(32);
  EXPECT_DEATH((void)*static_cast<volatile float*>(data), "AddressSanitizer");
  ASSERT_EQ(cudaMemsetAsync(data, 0, 128, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_DEATH((void)*static_cast<volatile float*>(data), "AddressSanitizer") << "the GPU's own use ended";
}
#endif

#ifdef EMULATION_TSAN
// ThreadSanitizer ends the process that it found a race in with 66.
void race_kernel(unsigned* at) { *at += threadIdx.x; }
void missing_barrier_kernel(unsigned* out) {
  SHARED_ARRAY(unsigned, values, 32);
  values[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}
void shuffle_is_no_barrier_kernel(unsigned* out) {
  SHARED_ARRAY(unsigned, values, 32);
  values[threadIdx.x] = threadIdx.x;
  __shfl_sync(kAll, 1, 0);
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}
void synced_warp_kernel(unsigned* out) {
  SHARED_ARRAY(unsigned, values, 32);
  values[threadIdx.x] = threadIdx.x;
  __syncwarp();
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}
using EmulationDeathTest = Emulation;

void expect_race(const std::function<void()>& run) {
  EXPECT_EXIT(
      {
        run();
        std::exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(66), "data race");
}

TEST_F(EmulationDeathTest, APlainAddOfManyThreads) {
  unsigned* const data = zeros<unsigned>(1);
  expect_race([&] { (void)fault_of(race_kernel, 1, 32, data); });
}
TEST_F(EmulationDeathTest, SharedMemoryWithoutABarrier) {
  unsigned* const out = room<unsigned>(32);
  expect_race([&] { (void)fault_of(missing_barrier_kernel, 1, 32, out); });
}
TEST_F(EmulationDeathTest, AShuffleOrdersNoMemory) {
  unsigned* const out = room<unsigned>(32);
  expect_race([&] { (void)fault_of(shuffle_is_no_barrier_kernel, 1, 32, out); });
}
void blocks_race_kernel(unsigned* at) {
  for (int i = 0; i < 3; ++i) __syncthreads();
  if (threadIdx.x == 0) *at += 1;
}
TEST_F(EmulationDeathTest, BlocksThatWriteOnePlaceBehindTheirBarriers) {
  for (unsigned blocks : {2u, 3u, 7u}) {
    unsigned* const data = zeros<unsigned>(1);
    expect_race([&] { (void)fault_of(blocks_race_kernel, blocks, 64, data); });
  }
}
void blocks_apart_kernel(unsigned* at) {
  SHARED_ARRAY(unsigned, values, 64);
  values[threadIdx.x] = threadIdx.x;
  __syncthreads();
  at[blockIdx.x * 64 + threadIdx.x] = values[63 - threadIdx.x];
  atomicAdd(at + gridDim.x * 64, 1u);
}
TEST_F(Emulation, BlocksThatKeepApartRaceNot) {
  unsigned* const data = zeros<unsigned>(5 * 64 + 1);
  EXPECT_EQ(fault_of(blocks_apart_kernel, 5, 64, data), "");
  EXPECT_EQ(fault_of(blocks_apart_kernel, 5, 64, data), "") << "the next launch comes after";
}
void write_and_get_stuck_kernel(unsigned* at) {
  at[threadIdx.x] = 1;
  if (threadIdx.x < 32) __syncthreads();
}
TEST_F(Emulation, WhatFollowsAFaultComesAfter) {
  unsigned* const data = room<unsigned>(64);
  EXPECT_SAYS(fault_of(write_and_get_stuck_kernel, 1, 64, data), "have ended");
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(std::exchange(data[i], 2u), 1u);
}
TEST_F(Emulation, SyncwarpOrdersMemory) {
  unsigned* const out = room<unsigned>(32);
  EXPECT_EQ(fault_of(synced_warp_kernel, 1, 32, out), "");
}
#else
void pair_kernel(unsigned* out) {
  SHARED_ARRAY(unsigned, values, 64);
  values[threadIdx.x] = threadIdx.x;
  __syncwarp();
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}
TEST_F(Emulation, SyncwarpWaitsForTheWarp) {
  unsigned* const out = room<unsigned>(64);
  run(pair_kernel, 1, 64, out);
  const auto got = read(out, 64);
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(got[i], i ^ 1);
}
#endif

}  // namespace
