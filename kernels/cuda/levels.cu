#include "kernels/cuda/levels.h"

#include <algorithm>
#include <bit>

#include "kernels/check.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/terms.cuh"
#include "kernels/level_chance.h"

// A warp takes groups of 64 bytes, a few at a time, and each lane two bytes of each: then the warp reads neighboring
// floats, and what is loaded before it is used keeps the memory busy.
namespace starling {
namespace {
using namespace cuda;

constexpr uint32_t kGroupBytes = 64;
constexpr uint32_t kHalves = 2;   // of a group: a lane has a byte of each
static_assert(kLevelPair * kHalves == kGroupBytes, "the bytes of a lane share random bits");

// The groups of all blocks, one block after the other; the last one of each block may be short.
struct Groups {
  Groups(const BlockedLevels& levels, size_t element_count)
      : count(element_count), block(std::min(levels.block, count)), block_bytes(levels.codes.bytes(block)) {
    const size_t elements = levels.codes.group_elements(), each = (block + elements - 1) / elements;
    const size_t all = count / block * each + (count % block + elements - 1) / elements;
    STARLING_CHECK(all <= UINT32_MAX);
    of_a_block = static_cast<uint32_t>(each);
    by_block = Divisor(of_a_block);
    total = static_cast<uint32_t>(all);
    if (block % elements == 0 || block >= count) whole = static_cast<uint32_t>(count / elements);
  }
  size_t count, block, block_bytes;
  uint32_t of_a_block = 0, total = 0;
  Divisor by_block;
  uint32_t whole = 0;   // the first so many are whole and lie without gaps
};

// How codes of so many bits are taken: kRun groups at a time, so that a lane has 8 elements, or 16 of one bit.
template <int kBits>
struct Layout {
  static constexpr uint32_t kSlots = 8 / kBits;
  static constexpr uint32_t kElements = kGroupBytes * kSlots;
  static constexpr uint32_t kRun = kBits < 4 ? 1 : kBits / 2;
};

// kRun groups, one after the other, as a lane sees them; those past the last one have no elements. Where all are whole,
// every place in them is a constant.
template <int kBits, bool kWhole>
struct Run {
  using L = Layout<kBits>;
  size_t element, byte;      // its first
  uint32_t blocks[L::kRun];
  uint32_t elements[L::kRun], first[L::kRun], first_byte[L::kRun];   // of each group, from the run's; unless kWhole

  // Of a lane's element in a group.
  __device__ static uint32_t place(uint32_t half, uint32_t slot) {
    return slot * kGroupBytes + half * kLevelPair + threadIdx.x % 32;
  }
  __device__ bool has_group(uint32_t r) const { return kWhole || elements[r] != 0; }
  __device__ bool has(uint32_t r, uint32_t half, uint32_t slot) const {
    return kWhole || place(half, slot) < elements[r];
  }
  __device__ bool has_byte(uint32_t r, uint32_t half) const { return has(r, half, 0); }
  __device__ size_t at(uint32_t r, uint32_t half, uint32_t slot) const {
    return element + ((kWhole ? r * L::kElements : first[r]) + place(half, slot));
  }
  __device__ size_t byte_at(uint32_t r, uint32_t half) const {
    return byte + ((kWhole ? r * kGroupBytes : first_byte[r]) + place(half, 0));
  }
};

// Calls use(run) for all groups.
template <int kBits, class Use>
__device__ void each_run(const Groups& groups, const Use& use) {
  constexpr uint32_t kRun = Layout<kBits>::kRun, kElements = Layout<kBits>::kElements;
  constexpr size_t kMost = 1u << 30;   // more than a run has, so that it is counted in 32 bits
  for (size_t g = first_index() / 32 * kRun; g < groups.total; g += index_stride() / 32 * kRun) {
    uint32_t block = groups.by_block.divide(static_cast<uint32_t>(g));
    uint32_t in_block = static_cast<uint32_t>(g) - block * groups.of_a_block;
    if (g + kRun <= groups.whole) {
      Run<kBits, true> run{g * kElements, g * kGroupBytes};
      for (uint32_t r = 0; r < kRun; ++r) {
        run.blocks[r] = block;
        if (++in_block != groups.of_a_block) continue;
        in_block = 0;
        ++block;
      }
      use(run);
    } else {
      const size_t begin = block * groups.block, element = begin + size_t{in_block} * kElements;
      Run<kBits, false> run{element, block * groups.block_bytes + size_t{in_block} * kGroupBytes};
      const auto all = static_cast<uint32_t>(min(groups.count - element, kMost));
      auto left = static_cast<uint32_t>(min(min(begin + groups.block, groups.count) - element, kMost));
      uint32_t first = 0, first_byte = 0;
      for (uint32_t r = 0; r < kRun; ++r) {
        const uint32_t elements = min(left, kElements);
        run.blocks[r] = block;
        run.elements[r] = elements;
        run.first[r] = first;
        run.first_byte[r] = first_byte;
        first += elements;
        first_byte += min(elements, kGroupBytes);
        left -= elements;
        if (left != 0) continue;
        ++block;
        left = min(static_cast<uint32_t>(min(groups.block, kMost)), all - first);
      }
      use(run);
    }
  }
}

// The scale of each group's block.
template <int kBits, bool kWhole>
__device__ void load_scales(const Run<kBits, kWhole>& run, const float* scales, float (&values)[Layout<kBits>::kRun]) {
  for (uint32_t r = 0; r < Layout<kBits>::kRun; ++r) values[r] = run.has_group(r) ? scales[run.blocks[r]] : 0.0f;
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
__global__ void __launch_bounds__(kThreads, blocks_at_once(48)) encode_kernel(Groups groups, int levels, const float* x,
                                                             const float* scales, uint32_t key, uint8_t* out) {
  using L = Layout<kBits>;
  each_run<kBits>(groups, [&](const auto& run) {
    float values[L::kRun][L::kSlots][kHalves], scale[L::kRun] = {}, scaled[L::kRun];
    for (uint32_t r = 0; r < L::kRun; ++r) {
      for (uint32_t slot = 0; slot < L::kSlots; ++slot) {
        for (uint32_t half = 0; half < kHalves; ++half) {
          values[r][slot][half] = run.has(r, half, slot) ? x[run.at(r, half, slot)] : 0.0f;
        }
      }
    }
    if (kBits > 1) load_scales(run, scales, scale);
    for (uint32_t r = 0; r < L::kRun; ++r) {
      if (r > 0 && run.blocks[r] == run.blocks[r - 1]) scaled[r] = scaled[r - 1];   // a division takes long
      else scaled[r] = scale[r] > 0 ? __fmul_rn(__frcp_rn(scale[r]), 0x1p16f) : 0.0f;
      uint32_t packed[kHalves] = {};
      for (uint32_t slot = 0; slot < L::kSlots; ++slot) {
        // Both halves draw from the hash of the first.
        const uint32_t random = kBits == 1 ? 0 : level_random(key, run.at(r, 0, slot));
        for (uint32_t half = 0; half < kHalves; ++half) {
          if (!run.has(r, half, slot)) continue;
          const float value = values[r][slot][half];
          const uint32_t code = kBits == 1 ? sign_code(value, key, run.at(r, half, slot))
                                           : level_code(value, scaled[r], levels, random >> half * 16 & 0xFFFFu);
          packed[half] |= code << slot * kBits;
        }
      }
      for (uint32_t half = 0; half < kHalves; ++half) {
        if (run.has_byte(r, half)) out[run.byte_at(r, half)] = static_cast<uint8_t>(packed[half]);
      }
    }
  });
}

// The level in a slot of a byte: with one bit -1 or 1. A code is the last bits of a float above 2^23: that costs less
// than a conversion, and the difference is exact.
template <int kBits>
__device__ float level_at(uint32_t packed, uint32_t slot, int most) {
  const uint32_t shifted = packed >> slot * kBits;
  const uint32_t code = (slot + 1) * kBits == 8 ? shifted : shifted & ((1u << kBits) - 1u);   // a byte has no more
  if (kBits == 1) return code != 0 ? 1.0f : -1.0f;
  return __fsub_rn(__uint_as_float(0x4B000000u | code), static_cast<float>((1 << 23) + most));
}

// weight * (scale * level) of the elements of a group.
template <int kBits>
class Products {
 public:
  // All lanes must call it, and at().
  __device__ Products(float weight, float scale, int most) : weight_(weight), scale_(scale), most_(most) {
    if (kBits == 1) of_lane_ = __fmul_rn(weight, scale);
    else if (kByLane) of_lane_ = product(threadIdx.x % 16);
  }
  __device__ float at(uint32_t packed, uint32_t slot) const {
    if (kBits == 1) {   // both products are the same size: the sign alone is the level's
      return __uint_as_float(__float_as_uint(of_lane_) ^ (~packed << (31 - slot) & 0x80000000u));
    } else if (kByLane) {
      const uint32_t code = packed >> slot * kBits;
      return __shfl_sync(0xFFFFFFFFu, of_lane_, static_cast<int>(kBits == 4 ? code : code & 3u), 16);
    }
    return product(packed);
  }

 private:
  static constexpr bool kByLane = kBits == 2 || kBits == 4;   // so few codes that a lane has the product of each
  __device__ float product(uint32_t code) const {
    return __fmul_rn(weight_, __fmul_rn(scale_, level_at<8>(code, 0, most_)));
  }
  float weight_, scale_, of_lane_ = 0;
  int most_;
};

// A lane's bytes of each group; zero where there is none.
template <int kBits, bool kWhole>
__device__ void load_bytes(const Run<kBits, kWhole>& run, const uint8_t* bytes,
                           uint32_t (&packed)[Layout<kBits>::kRun][kHalves]) {
  for (uint32_t r = 0; r < Layout<kBits>::kRun; ++r) {
    for (uint32_t half = 0; half < kHalves; ++half) {
      packed[r][half] = run.has_byte(r, half) ? bytes[run.byte_at(r, half)] : 0;
    }
  }
}

template <int kBits>
__global__ void __launch_bounds__(kThreads, blocks_at_once(48))
decode_kernel(Groups groups, int most, const uint8_t* bytes, const float* scales, float* out) {
  using L = Layout<kBits>;
  each_run<kBits>(groups, [&](const auto& run) {
    uint32_t packed[L::kRun][kHalves];
    float scale[L::kRun];
    load_bytes(run, bytes, packed);
    load_scales(run, scales, scale);
    for (uint32_t r = 0; r < L::kRun; ++r) {
      for (uint32_t slot = 0; slot < L::kSlots; ++slot) {
        for (uint32_t half = 0; half < kHalves; ++half) {
          if (!run.has(r, half, slot)) continue;
          out[run.at(r, half, slot)] = __fmul_rn(scale[r], level_at<kBits>(packed[r][half], slot, most));
        }
      }
    }
  });
}

// Terms whose bytes are loaded before one is added: more would take registers from other warps.
template <int kBits>
constexpr unsigned kTermsOfLoad = kBits == 8 ? 2 : 4;

// Adds what the terms say of a lane's elements, one after the other, to 0 or to what is there, while their sums are in
// registers.
template <int kBits>
__global__ void merge_kernel(Groups groups, int most, Terms<LevelTerm> terms, bool from_zero, float* out) {
  using L = Layout<kBits>;
  constexpr unsigned kTerms = kTermsOfLoad<kBits>;
  each_run<kBits>(groups, [&](const auto& run) {
    float sums[L::kRun][L::kSlots][kHalves];
    for (uint32_t r = 0; r < L::kRun; ++r) {
      for (uint32_t slot = 0; slot < L::kSlots; ++slot) {
        for (uint32_t half = 0; half < kHalves; ++half) {
          sums[r][slot][half] = from_zero || !run.has(r, half, slot) ? 0.0f : out[run.at(r, half, slot)];
        }
      }
    }
    for (unsigned t = 0; t < terms.count; t += kTerms) {
      uint32_t packed[kTerms][L::kRun][kHalves];
      float scale[kTerms][L::kRun];
      for (unsigned i = 0; i < kTerms; ++i) {
        if (t + i >= terms.count) break;
        load_bytes(run, reinterpret_cast<const uint8_t*>(terms.each[t + i].codes), packed[i]);
        load_scales(run, reinterpret_cast<const float*>(terms.each[t + i].scales), scale[i]);
      }
      for (unsigned i = 0; i < kTerms; ++i) {
        if (t + i >= terms.count) break;
        const float weight = terms.each[t + i].weight;
        for (uint32_t r = 0; r < L::kRun; ++r) {
          const Products<kBits> products(weight, scale[i][r], most);
          for (uint32_t slot = 0; slot < L::kSlots; ++slot) {
            for (uint32_t half = 0; half < kHalves; ++half) {
              sums[r][slot][half] = __fadd_rn(sums[r][slot][half], products.at(packed[i][r][half], slot));
            }
          }
        }
      }
    }
    for (uint32_t r = 0; r < L::kRun; ++r) {
      for (uint32_t slot = 0; slot < L::kSlots; ++slot) {
        for (uint32_t half = 0; half < kHalves; ++half) {
          if (run.has(r, half, slot)) out[run.at(r, half, slot)] = sums[r][slot][half];
        }
      }
    }
  });
}

__global__ void take_signs_kernel(uint32_t size_bits, float* x, size_t count) {
  each_element(count, [&](size_t i) { return x[i]; }, [&](size_t i, float value) {
    const uint32_t sign = __float_as_uint(value) & 0x80000000u;
    x[i] = magnitude_bits(value) == 0 ? 0.0f : __uint_as_float(size_bits | sign);
  });
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

template <int kBits>
int blocks_for_groups(const Groups& groups) {
  return blocks_for_warps((groups.total + Layout<kBits>::kRun - 1) / Layout<kBits>::kRun);
}

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

void launch_merge(const BlockedLevels& levels, const Terms<LevelTerm>& terms, bool from_zero, float* out, size_t count,
                  void* stream) {
  const Groups groups(levels, count);
  with_bits(levels.codes, [&](auto bits) {
    launch("levels_merge", merge_kernel<bits.value>, blocks_for_groups<bits.value>(groups), kThreads, 0, stream, groups,
           levels.codes.levels, terms, from_zero, out);
  });
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
    launch("levels_encode", encode_kernel<bits.value>, blocks_for_groups<bits.value>(groups), kThreads, 0, stream,
           groups, levels.codes.levels, x, scales, level_key(rng_seed), reinterpret_cast<uint8_t*>(out));
  });
}

void levels_decode_cuda(const BlockedLevels& levels, const std::byte* bytes, size_t count, const float* scales,
                        float* out, void* stream) {
  if (count == 0) return;
  const Groups groups(levels, count);
  with_bits(levels.codes, [&](auto bits) {
    launch("levels_decode", decode_kernel<bits.value>, blocks_for_groups<bits.value>(groups), kThreads, 0, stream,
           groups, levels.codes.levels, reinterpret_cast<const uint8_t*>(bytes), scales, out);
  });
}

void levels_axpy_cuda(const BlockedLevels& levels, float a, const std::byte* bytes, size_t count, const float* scales,
                      float* y, void* stream) {
  if (count == 0) return;
  launch_merge(levels, {{{a, reinterpret_cast<const std::byte*>(scales), bytes}}, 1}, false, y, count, stream);
}

void levels_merge_cuda(const BlockedLevels& levels, std::span<const LevelTerm> terms, float* out, size_t count,
                       void* stream) {
  if (count == 0) return;
  if (terms.empty()) return zero_async(out, count * sizeof(float), stream);
  launch_terms(terms, [&](const Terms<LevelTerm>& some, bool from_zero) {
    launch_merge(levels, some, from_zero, out, count, stream);
  });
}

void take_signs_cuda(float size, float* x, size_t count, void* stream) {
  if (count == 0) return;
  launch("take_signs", take_signs_kernel, blocks_for_elements(count), kThreads, 0, stream,
         std::bit_cast<uint32_t>(size), x, count);
}

}  // namespace starling
