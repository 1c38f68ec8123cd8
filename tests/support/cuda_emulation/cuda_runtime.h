// Stands in for CUDA's header of this name where .cu files are compiled as plain C++: the device's half. What is not
// here does not compile; approximate arithmetic never will be. -ffp-contract=off is REQUIRED.
#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "cuda_runtime_api.h"
#include "scheduler.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

inline uint3 threadIdx, blockIdx;  // of the thread that runs now
inline dim3 blockDim, gridDim;

namespace emulation {

void put_launch(Launch launch, cudaStream_t stream);

template <typename... Params>
void launch(const char* name, void (*kernel)(Params...), dim3 grid, dim3 block, size_t dynamic_bytes,
            cudaStream_t stream, std::type_identity_t<Params>... params) {
  put_launch({name, grid, block, dynamic_bytes,
              [kernel, arguments = std::tuple<Params...>(params...)] { std::apply(kernel, arguments); }},
             stream);
}

template <typename T>
concept Shuffled = std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8);

template <Shuffled T>
T shuffle(uint32_t mask, T value, int source, Site site) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_op(WarpOp::kShuffle, mask, bits, source, site);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// CUDA has these for few types; others, such as unsigned long, must not compile here either.
template <typename T>
concept AtomicInteger = std::same_as<T, int> || std::same_as<T, unsigned> || std::same_as<T, unsigned long long>;
template <typename T>
concept AtomicNumber = AtomicInteger<T> || std::same_as<T, float> || std::same_as<T, double>;

template <AtomicNumber T, typename F>
T atomic_update(T* at, F change) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  auto* const bits = reinterpret_cast<Bits*>(at);
  Bits old = __atomic_load_n(bits, __ATOMIC_RELAXED);
  for (;;) {
    const auto changed = std::bit_cast<Bits>(static_cast<T>(change(std::bit_cast<T>(old))));
    if (__atomic_compare_exchange_n(bits, &old, changed, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) break;
  }
  return std::bit_cast<T>(old);
}

inline unsigned fold(WarpOp op, unsigned mask, unsigned value, Site site) {
  return static_cast<unsigned>(warp_op(op, mask, value, 0, site));
}

}  // namespace emulation

// ---- Blocks and warps. A shuffle from outside its width reads the lane itself, as on the device.
#define EMULATION_SITE emulation::Site site = emulation::Site::current()

inline void __syncthreads(EMULATION_SITE) { emulation::sync_block(emulation::Vote::kNone, 0, site); }
inline int __syncthreads_or(int predicate, EMULATION_SITE) {
  return emulation::sync_block(emulation::Vote::kOr, predicate, site);
}
inline int __syncthreads_and(int predicate, EMULATION_SITE) {
  return emulation::sync_block(emulation::Vote::kAnd, predicate, site);
}
inline int __syncthreads_count(int predicate, EMULATION_SITE) {
  return emulation::sync_block(emulation::Vote::kCount, predicate, site);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, EMULATION_SITE) {
  emulation::warp_op(emulation::WarpOp::kSync, mask, 0, 0, site);
}

template <emulation::Shuffled T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32, EMULATION_SITE) {
  return emulation::shuffle(mask, value, (emulation::lane() & ~(width - 1)) | (from & (width - 1)), site);
}
template <emulation::Shuffled T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATION_SITE) {
  const int own = emulation::lane(), by = static_cast<int>(delta);
  return emulation::shuffle(mask, value, (own & (width - 1)) + by < width ? own + by : own, site);
}
template <emulation::Shuffled T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATION_SITE) {
  const int own = emulation::lane(), by = static_cast<int>(delta);
  return emulation::shuffle(mask, value, (own & (width - 1)) - by >= 0 ? own - by : own, site);
}
template <emulation::Shuffled T>
T __shfl_xor_sync(unsigned mask, T value, int flipped, int width = 32, EMULATION_SITE) {
  const int own = emulation::lane(), other = own ^ flipped;
  return emulation::shuffle(mask, value, other / width > own / width ? own : other, site);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, EMULATION_SITE) {
  return emulation::fold(emulation::WarpOp::kBallot, mask, predicate != 0, site);
}
inline int __any_sync(unsigned mask, int predicate, EMULATION_SITE) {
  return __ballot_sync(mask, predicate, site) != 0;
}
inline int __all_sync(unsigned mask, int predicate, EMULATION_SITE) {
  return __ballot_sync(mask, !predicate, site) == 0;
}

// Unsigned alone: a negative number's minimum is another one.
template <std::same_as<unsigned> T>
T __reduce_add_sync(unsigned mask, T value, EMULATION_SITE) {
  return emulation::fold(emulation::WarpOp::kAdd, mask, value, site);
}
template <std::same_as<unsigned> T>
T __reduce_min_sync(unsigned mask, T value, EMULATION_SITE) {
  return emulation::fold(emulation::WarpOp::kMin, mask, value, site);
}
template <std::same_as<unsigned> T>
T __reduce_max_sync(unsigned mask, T value, EMULATION_SITE) {
  return emulation::fold(emulation::WarpOp::kMax, mask, value, site);
}
template <std::same_as<unsigned> T>
T __reduce_or_sync(unsigned mask, T value, EMULATION_SITE) {
  return emulation::fold(emulation::WarpOp::kOr, mask, value, site);
}
template <std::same_as<unsigned> T>
T __reduce_and_sync(unsigned mask, T value, EMULATION_SITE) {
  return emulation::fold(emulation::WarpOp::kAnd, mask, value, site);
}
template <std::same_as<unsigned> T>
T __reduce_xor_sync(unsigned mask, T value, EMULATION_SITE) {
  return emulation::fold(emulation::WarpOp::kXor, mask, value, site);
}

// ---- Atomics: relaxed, as CUDA's.
template <emulation::AtomicNumber T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return emulation::atomic_update(at, [=](T old) { return old + value; });
}
template <emulation::AtomicInteger T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return emulation::atomic_update(at, [=](T old) { return old < value ? value : old; });
}
template <emulation::AtomicInteger T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return emulation::atomic_update(at, [=](T old) { return value < old ? value : old; });
}
template <emulation::AtomicInteger T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return emulation::atomic_update(at, [=](T old) { return old | value; });
}
template <emulation::AtomicInteger T>
T atomicAnd(T* at, std::type_identity_t<T> value) {
  return emulation::atomic_update(at, [=](T old) { return old & value; });
}
template <emulation::AtomicInteger T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return emulation::atomic_update(at, [=](T) { return value; });
}
template <emulation::AtomicInteger T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return emulation::atomic_update(at, [=](T old) { return old == expected ? value : old; });
}

// ---- Arithmetic, rounded to nearest. A conversion to an integer saturates, and makes 0 of a NaN.
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline uint32_t __float_as_uint(float value) { return std::bit_cast<uint32_t>(value); }
inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline int __float2int_rn(float value) {
  if (std::isnan(value)) return 0;
  if (value >= 2147483648.0f) return 2147483647;
  if (value <= -2147483648.0f) return -2147483647 - 1;
  return static_cast<int>(std::nearbyint(value));
}
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __ffs(int bits) { return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1; }
template <typename T>
T max(T a, std::type_identity_t<T> b) {
  return a < b ? b : a;
}
template <typename T>
T min(T a, std::type_identity_t<T> b) {
  return b < a ? b : a;
}
