#include "kernels/cuda/levels.h"

#include <bit>

#include "kernels/check.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/terms.cuh"
#include "kernels/level_chance.h"

// A warp takes a group of 64 bytes at a time, and each lane two of its bytes: then the warp reads neighboring floats.
namespace starling {
namespace {
using namespace cuda;

constexpr uint32_t kGroupBytes = 64;

// The groups of all blocks, one block after the other; the last one of each block may be short.
struct Groups {
  Groups(const BlockedLevels& levels, size_t element_count)
      : count(element_count), block(levels.block), block_bytes(levels.codes.bytes(levels.block)) {
    const size_t elements = levels.codes.group_elements(), each = (block + elements - 1) / elements;
    const size_t all = count / block * each + (count % block + elements - 1) / elements;
    STARLING_CHECK(all <= UINT32_MAX);
    of_a_block = static_cast<uint32_t>(each);
    total = static_cast<uint32_t>(all);
  }
  size_t count, block, block_bytes;
  uint32_t of_a_block = 0, total = 0;
};

// Calls use(block, element, byte, slots) for each byte: the first element that it holds, and how many it holds.
template <int kBits, class Use>
__device__ void each_byte(const Groups& groups, const Use& use) {
  constexpr uint32_t kSlots = 8 / kBits, kElements = kGroupBytes * kSlots;
  const auto warps = static_cast<uint32_t>(index_stride() / 32);
  for (size_t g = first_index() / 32; g < groups.total; g += warps) {
    const uint32_t block = static_cast<uint32_t>(g) / groups.of_a_block;
    const uint32_t group = static_cast<uint32_t>(g) - block * groups.of_a_block;
    const size_t begin = block * groups.block;
    const size_t length = min(groups.block, groups.count - begin);
    for (uint32_t j = threadIdx.x % 32; j < kGroupBytes; j += 32) {
      const size_t element = size_t{group} * kElements + j;   // of the block
      if (element >= length) break;
      const size_t slots = (length - element + kGroupBytes - 1) / kGroupBytes;
      use(block, begin + element, block * groups.block_bytes + group * kGroupBytes + j,
          slots < kSlots ? static_cast<uint32_t>(slots) : kSlots);
    }
  }
}

__device__ inline uint32_t sign_code(float x, uint32_t key, size_t position) {
  if (x == 0) return level_random(key, position) >> 31;
  return __float_as_uint(x) >> 31 ^ 1u;
}

// `chance`: 16 random bits.
__device__ inline uint32_t level_code(float x, float scaled, int levels, uint32_t chance) {
  const auto most = static_cast<float>(levels << 16);
  const int parts = __float2int_rn(fmaxf(fminf(__fmul_rn(x, scaled), most), -most));
  return (static_cast<uint32_t>(parts + (levels << 16)) + chance) >> 16;
}

template <int kBits>
__global__ void encode_kernel(Groups groups, int levels, const float* x, const float* scales, uint32_t key,
                              uint8_t* out) {
  each_byte<kBits>(groups, [&](uint32_t block, size_t first, size_t byte, uint32_t slots) {
    const float scale = scales[block], scaled = scale > 0 ? __fmul_rn(__fdiv_rn(1.0f, scale), 0x1p16f) : 0.0f;
    const size_t begin = block * groups.block;
    uint32_t packed = 0;
    for (uint32_t slot = 0; slot < slots; ++slot) {
      const size_t i = first + slot * kGroupBytes;
      const uint32_t code = kBits == 1 ? sign_code(x[i], key, i)
                                       : level_code(x[i], scaled, levels, level_share(key, begin, i - begin));
      packed |= code << slot * kBits;
    }
    out[byte] = static_cast<uint8_t>(packed);
  });
}

// The level in a slot of a byte.
template <int kBits>
__device__ float level_at(uint32_t packed, uint32_t slot, int most) {
  const auto code = static_cast<int>(packed >> slot * kBits & ((1u << kBits) - 1u));
  return static_cast<float>(kBits == 1 ? 2 * code - 1 : code - most);
}

template <int kBits>
__global__ void decode_kernel(Groups groups, int most, const uint8_t* bytes, const float* scales, float* out) {
  each_byte<kBits>(groups, [&](uint32_t block, size_t first, size_t byte, uint32_t slots) {
    const uint32_t packed = bytes[byte];
    for (uint32_t slot = 0; slot < slots; ++slot) {
      out[first + slot * kGroupBytes] = __fmul_rn(scales[block], level_at<kBits>(packed, slot, most));
    }
  });
}

template <int kBits>
__global__ void axpy_kernel(Groups groups, int most, float a, const uint8_t* bytes, const float* scales, float* y) {
  each_byte<kBits>(groups, [&](uint32_t block, size_t first, size_t byte, uint32_t slots) {
    const uint32_t packed = bytes[byte];
    for (uint32_t slot = 0; slot < slots; ++slot) {
      float* const at = y + first + slot * kGroupBytes;
      *at = __fadd_rn(*at, __fmul_rn(a, __fmul_rn(scales[block], level_at<kBits>(packed, slot, most))));
    }
  });
}

// Adds what the terms say of the elements of a byte, one after the other, to 0 or to what the launch before left. All
// slots are added up, that the sums may stay in registers, and those that are there are kept.
template <int kBits>
__global__ void merge_kernel(Groups groups, int most, Terms<LevelTerm> terms, bool from_zero, float* out) {
  each_byte<kBits>(groups, [&](uint32_t block, size_t first, size_t byte, uint32_t slots) {
    constexpr uint32_t kSlots = 8 / kBits;
    float* const at = out + first;
    float sums[kSlots];
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      sums[slot] = from_zero || slot >= slots ? 0.0f : at[slot * kGroupBytes];
    }
    for (unsigned t = 0; t < terms.count; ++t) {
      const LevelTerm& term = terms.each[t];
      const float scale = reinterpret_cast<const float*>(term.scales)[block];
      const uint32_t packed = reinterpret_cast<const uint8_t*>(term.codes)[byte];
      for (uint32_t slot = 0; slot < kSlots; ++slot) {
        const float value = __fmul_rn(term.weight, __fmul_rn(scale, level_at<kBits>(packed, slot, most)));
        sums[slot] = __fadd_rn(sums[slot], value);
      }
    }
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      if (slot < slots) at[slot * kGroupBytes] = sums[slot];
    }
  });
}

__global__ void take_signs_kernel(uint32_t size_bits, float* x, size_t count) {
  for (size_t i = first_index(); i < count; i += index_stride()) {
    const uint32_t sign = __float_as_uint(x[i]) & 0x80000000u;
    x[i] = magnitude_bits(x[i]) == 0 ? 0.0f : __uint_as_float(size_bits | sign);
  }
}

// Lane 0 gets the warp's sum, always added in the same order.
__device__ inline double warp_sum_double(double value) {
  for (unsigned step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xFFFFFFFFu, value, step);
  return value;
}

// A warp takes a block at a time.
__global__ void block_sums_kernel(const float* x, size_t count, size_t block, size_t blocks, BlockSums* sums) {
  for (size_t b = first_index() / 32; b < blocks; b += index_stride() / 32) {
    const size_t end = min(b * block + block, count);
    BlockSums own{0, 0, 0};
    for (size_t i = b * block + threadIdx.x % 32; i < end; i += 32) {
      const uint32_t magnitude = magnitude_bits(x[i]);
      const double value = __uint_as_float(magnitude);
      own.magnitudes += value;
      own.squares += value * value;
      own.max_abs_bits = max(own.max_abs_bits, magnitude);
    }
    own.magnitudes = warp_sum_double(own.magnitudes);
    own.squares = warp_sum_double(own.squares);
    own.max_abs_bits = warp_max(own.max_abs_bits);
    if (first_in_warp()) sums[b] = own;
  }
}

int blocks_for_warps(size_t warps) { return blocks_for(32 * warps); }

// Calls run(std::integral_constant<int, bits>).
template <class Run>
void with_bits(const LevelCodes& codes, const Run& run) {
  switch (codes.bits) {
    case 1: return run(std::integral_constant<int, 1>());
    case 2: return run(std::integral_constant<int, 2>());
    case 4: return run(std::integral_constant<int, 4>());
    default: return run(std::integral_constant<int, 8>());
  }
}

}  // namespace

void block_sums_cuda(const float* x, size_t count, size_t block, BlockSums* sums, void* stream) {
  if (count == 0) return;
  const size_t blocks = (count + block - 1) / block;
  launch("block_sums", block_sums_kernel, blocks_for_warps(blocks), kThreads, 0, stream, x, count, block, blocks, sums);
}

void levels_encode_cuda(const BlockedLevels& levels, const float* x, size_t count, const float* scales,
                        uint64_t rng_seed, std::byte* out, void* stream) {
  if (count == 0) return;
  STARLING_CHECK(2 * levels.codes.levels < 1 << levels.codes.bits || levels.codes.bits == 1);
  const Groups groups(levels, count);
  with_bits(levels.codes, [&](auto bits) {
    launch("levels_encode", encode_kernel<bits.value>, blocks_for_warps(groups.total), kThreads, 0, stream, groups,
           levels.codes.levels, x, scales, level_key(rng_seed), reinterpret_cast<uint8_t*>(out));
  });
}

void levels_decode_cuda(const BlockedLevels& levels, const std::byte* bytes, size_t count, const float* scales,
                        float* out, void* stream) {
  if (count == 0) return;
  const Groups groups(levels, count);
  with_bits(levels.codes, [&](auto bits) {
    launch("levels_decode", decode_kernel<bits.value>, blocks_for_warps(groups.total), kThreads, 0, stream, groups,
           levels.codes.levels, reinterpret_cast<const uint8_t*>(bytes), scales, out);
  });
}

void levels_axpy_cuda(const BlockedLevels& levels, float a, const std::byte* bytes, size_t count, const float* scales,
                      float* y, void* stream) {
  if (count == 0) return;
  const Groups groups(levels, count);
  with_bits(levels.codes, [&](auto bits) {
    launch("levels_axpy", axpy_kernel<bits.value>, blocks_for_warps(groups.total), kThreads, 0, stream, groups,
           levels.codes.levels, a, reinterpret_cast<const uint8_t*>(bytes), scales, y);
  });
}

void levels_merge_cuda(const BlockedLevels& levels, std::span<const LevelTerm> terms, float* out, size_t count,
                       void* stream) {
  if (count == 0) return;
  if (terms.empty()) return zero_async(out, count * sizeof(float), stream);
  const Groups groups(levels, count);
  launch_terms(terms, [&](const Terms<LevelTerm>& some, bool from_zero) {
    with_bits(levels.codes, [&](auto bits) {
      launch("levels_merge", merge_kernel<bits.value>, blocks_for_warps(groups.total), kThreads, 0, stream, groups,
             levels.codes.levels, some, from_zero, out);
    });
  });
}

void take_signs_cuda(float size, float* x, size_t count, void* stream) {
  if (count == 0) return;
  launch("take_signs", take_signs_kernel, blocks_for(count), kThreads, 0, stream, std::bit_cast<uint32_t>(size),
         x, count);
}

}  // namespace starling
