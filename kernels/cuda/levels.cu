#include "kernels/cuda/levels.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "kernels/check.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/level_chance.h"

// A warp takes groups of 64 bytes, a few at a time, and each lane two bytes of each: then the warp reads neighboring
// floats, and what is loaded before it is used keeps the memory busy.
namespace starling {
namespace {
using namespace cuda;

constexpr uint32_t kGroupBytes = 64;
constexpr uint32_t kHalves = 2;  // of a group: a lane has a byte of each
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
  uint32_t whole = 0;  // the first so many are whole and lie without gaps
};

// How codes of so many bits are taken: kRun groups at a time, so that a lane has 8 elements.
template <int kBits>
struct Layout {
  static constexpr uint32_t kSlots = 8 / kBits;
  static constexpr uint32_t kElements = kGroupBytes * kSlots;
  static constexpr uint32_t kRun = kBits / 2;
  // Scales of a run of whole groups: codes of 8 bits come in blocks of several runs, those of 4 bits in small ones.
  static constexpr uint32_t kScales = kBits == 8 ? 1 : kRun;
};

// Groups, one after the other, as a lane sees them: kRun whole ones, where every place is a constant; or one, of which
// some may be missing.
template <int kBits, bool kWhole>
struct Run {
  using L = Layout<kBits>;
  static constexpr uint32_t kGroups = kWhole ? L::kRun : 1, kScales = kWhole ? L::kScales : 1;
  size_t element, byte;  // its first
  uint32_t elements;     // that are there
  uint32_t blocks[kScales];

  __device__ static uint32_t scale_of(uint32_t r) { return kScales == 1 ? 0 : r; }
  // Of a lane's element in a group.
  __device__ static uint32_t place(uint32_t half, uint32_t slot) {
    return slot * kGroupBytes + half * kLevelPair + threadIdx.x % 32;
  }
  __device__ bool has(uint32_t half, uint32_t slot) const { return kWhole || place(half, slot) < elements; }
  __device__ bool has_byte(uint32_t half) const { return has(half, 0); }
  __device__ size_t at(uint32_t r, uint32_t half, uint32_t slot) const {
    return element + (r * L::kElements + place(half, slot));
  }
  __device__ size_t byte_at(uint32_t r, uint32_t half) const { return byte + (r * kGroupBytes + place(half, 0)); }
};

// Calls use(run) for all groups.
template <int kBits, class Use>
__device__ void each_run(const Groups& groups, const Use& use) {
  using L = Layout<kBits>;
  for (size_t g = first_index() / 32 * L::kRun; g < groups.total; g += index_stride() / 32 * L::kRun) {
    uint32_t block = groups.by_block.divide(static_cast<uint32_t>(g));
    uint32_t in_block = static_cast<uint32_t>(g) - block * groups.of_a_block;
    if (g + L::kRun <= groups.whole && (L::kScales == L::kRun || in_block + L::kRun <= groups.of_a_block)) {
      Run<kBits, true> run{g * L::kElements, g * kGroupBytes, L::kRun * L::kElements};
      for (uint32_t s = 0; s < L::kScales; ++s) {
        run.blocks[s] = block;
        if (++in_block != groups.of_a_block) continue;
        in_block = 0;
        ++block;
      }
      use(run);
    } else {
      NO_UNROLL for (uint32_t r = 0; r < L::kRun && g + r < groups.total; ++r) {
        const size_t begin = block * groups.block, element = begin + size_t{in_block} * L::kElements;
        const size_t left = min(begin + groups.block, groups.count) - element;
        use(Run<kBits, false>{element,
                              block * groups.block_bytes + size_t{in_block} * kGroupBytes,
                              static_cast<uint32_t>(min(left, size_t{L::kElements})),
                              {block}});
        if (++in_block != groups.of_a_block) continue;
        in_block = 0;
        ++block;
      }
    }
  }
}

template <class Run>
__device__ void load_scales(const Run& run, const float* scales, float (&values)[Run::kScales]) {
  for (uint32_t s = 0; s < Run::kScales; ++s) values[s] = scales[run.blocks[s]];
}

// `chance`: 16 random bits.
__device__ inline uint32_t level_code(float x, float scaled, int levels, uint32_t chance) {
  const auto most = static_cast<float>(levels << 16);
  const int parts = __float2int_rn(fmaxf(fminf(__fmul_rn(x, scaled), most), -most));
  return (static_cast<uint32_t>(parts + (levels << 16)) + chance) >> 16;
}

template <int kBits>
__global__ void __launch_bounds__(kThreads, blocks_at_once(48))
    encode_kernel(Groups groups, int levels, const float* x, const float* scales, uint32_t key, uint8_t* out) {
  using L = Layout<kBits>;
  each_run<kBits>(groups, [&](const auto& run) {
    using Run = std::decay_t<decltype(run)>;
    float values[Run::kGroups][L::kSlots][kHalves], scaled[Run::kScales];
    for (uint32_t r = 0; r < Run::kGroups; ++r) {
      for (uint32_t slot = 0; slot < L::kSlots; ++slot) {
        for (uint32_t half = 0; half < kHalves; ++half) {
          values[r][slot][half] = run.has(half, slot) ? x[run.at(r, half, slot)] : 0.0f;
        }
      }
    }
    load_scales(run, scales, scaled);
    for (float& scale : scaled) scale = scale > 0 ? __fmul_rn(__frcp_rn(scale), 0x1p16f) : 0.0f;
    for (uint32_t r = 0; r < Run::kGroups; ++r) {
      uint32_t packed[kHalves] = {};
      for (uint32_t slot = 0; slot < L::kSlots; ++slot) {
        // As level_share() has it: both halves draw from the hash of the first.
        const uint32_t random = level_random(key, run.at(r, 0, slot));
        for (uint32_t half = 0; half < kHalves; ++half) {
          if (!run.has(half, slot)) continue;
          const uint32_t chance = random >> half * 16 & 0xFFFFu;
          packed[half] |= level_code(values[r][slot][half], scaled[run.scale_of(r)], levels, chance) << slot * kBits;
        }
      }
      for (uint32_t half = 0; half < kHalves; ++half) {
        if (run.has_byte(half)) out[run.byte_at(r, half)] = static_cast<uint8_t>(packed[half]);
      }
    }
  });
}

// The level in a slot of a byte. A code is put into the last bits of a float above 2^23: that
// costs less than a conversion, and the difference is exact.
template <int kBits>
class Levels {
 public:
  // The bits of 2^23 come from `most`: as a constant they would take an instruction of their own behind each mask.
  __device__ explicit Levels(int most) {
    zero_ = static_cast<float>((1 << 23) + most);
    bits_ = __float_as_uint(zero_) & 0xFF800000u;
  }
  __device__ float at(uint32_t packed, uint32_t slot) const {
    const uint32_t shifted = packed >> slot * kBits;
    const uint32_t code = (slot + 1) * kBits == 8 ? shifted : shifted & ((1u << kBits) - 1u);  // a byte has no more
    return __fsub_rn(__uint_as_float(bits_ | code), zero_);
  }

 private:
  float zero_ = 0;
  uint32_t bits_ = 0;
};

// A lane's bytes of each group; zero where there is none.
template <class Run>
__device__ void load_bytes(const Run& run, const uint8_t* bytes, uint32_t (&packed)[Run::kGroups][kHalves]) {
  for (uint32_t r = 0; r < Run::kGroups; ++r) {
    for (uint32_t half = 0; half < kHalves; ++half) {
      packed[r][half] = run.has_byte(half) ? bytes[run.byte_at(r, half)] : 0;
    }
  }
}

template <int kBits>
__global__ void __launch_bounds__(kThreads, blocks_at_once(48))
    decode_kernel(Groups groups, int most, const uint8_t* bytes, const float* scales, float* out) {
  using L = Layout<kBits>;
  each_run<kBits>(groups, [&](const auto& run) {
    using Run = std::decay_t<decltype(run)>;
    const Levels<kBits> levels(most);
    uint32_t packed[Run::kGroups][kHalves];
    float scale[Run::kScales];
    load_bytes(run, bytes, packed);
    load_scales(run, scales, scale);
    for (uint32_t r = 0; r < Run::kGroups; ++r) {
      for (uint32_t slot = 0; slot < L::kSlots; ++slot) {
        for (uint32_t half = 0; half < kHalves; ++half) {
          if (!run.has(half, slot)) continue;
          out[run.at(r, half, slot)] = __fmul_rn(scale[run.scale_of(r)], levels.at(packed[r][half], slot));
        }
      }
    }
  });
}

template <int kBits>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kBits == 4 ? 64 : 48))
    axpy_kernel(Groups groups, int most, float a, const uint8_t* bytes, const float* scales, float* y) {
  using L = Layout<kBits>;
  each_run<kBits>(groups, [&](const auto& run) {
    using Run = std::decay_t<decltype(run)>;
    const Levels<kBits> levels(most);
    float sums[Run::kGroups][L::kSlots][kHalves];
    for (uint32_t r = 0; r < Run::kGroups; ++r) {
      for (uint32_t slot = 0; slot < L::kSlots; ++slot) {
        for (uint32_t half = 0; half < kHalves; ++half) {
          sums[r][slot][half] = run.has(half, slot) ? y[run.at(r, half, slot)] : 0.0f;
        }
      }
    }
    uint32_t packed[Run::kGroups][kHalves];
    float scale[Run::kScales];
    load_bytes(run, bytes, packed);
    load_scales(run, scales, scale);
    for (uint32_t r = 0; r < Run::kGroups; ++r) {
      for (uint32_t slot = 0; slot < L::kSlots; ++slot) {
        for (uint32_t half = 0; half < kHalves; ++half) {
          if (!run.has(half, slot)) continue;
          const float value = __fmul_rn(scale[run.scale_of(r)], levels.at(packed[r][half], slot));
          y[run.at(r, half, slot)] = __fadd_rn(sums[r][slot][half], __fmul_rn(a, value));
        }
      }
    }
  });
}

// A warp takes a block at a time.
__global__ void block_max_abs_kernel(const float* x, size_t count, size_t block, size_t blocks, uint32_t* bits) {
  for (size_t b = first_index() / 32; b < blocks; b += index_stride() / 32) {
    const size_t end = min(b * block + block, count);
    uint32_t largest = 0;
    for (size_t i = b * block + threadIdx.x % 32; i < end; i += 32) largest = max(largest, magnitude_bits(x[i]));
    largest = warp_max(largest);
    if (first_in_warp()) bits[b] = largest;
  }
}

template <int kBits>
int blocks_for_groups(const Groups& groups) {
  return blocks_for_warps((groups.total + Layout<kBits>::kRun - 1) / Layout<kBits>::kRun);
}

// Calls run(std::integral_constant<int, bits>).
template <class Run>
void with_bits(const LevelCodes& codes, const Run& run) {
  STARLING_CHECK(codes.bits == 4 || codes.bits == 8);
  if (codes.bits == 4) return run(std::integral_constant<int, 4>());
  run(std::integral_constant<int, 8>());
}

}  // namespace

void block_max_abs_cuda(const float* x, size_t count, size_t block, uint32_t* bits, void* stream) {
  if (count == 0) return;
  const size_t blocks = (count + block - 1) / block;
  launch("block_max_abs", block_max_abs_kernel, blocks_for_warps(blocks), kThreads, 0, stream, x, count, block, blocks,
         bits);
}

void levels_encode_cuda(const BlockedLevels& levels, const float* x, size_t count, const float* scales,
                        uint64_t rng_seed, std::byte* out, void* stream) {
  if (count == 0) return;
  STARLING_CHECK(2 * levels.codes.levels < 1 << levels.codes.bits);
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
  const Groups groups(levels, count);
  with_bits(levels.codes, [&](auto bits) {
    launch("levels_axpy", axpy_kernel<bits.value>, blocks_for_groups<bits.value>(groups), kThreads, 0, stream, groups,
           levels.codes.levels, a, reinterpret_cast<const uint8_t*>(bytes), scales, y);
  });
}

}  // namespace starling
