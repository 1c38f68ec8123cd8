// The twins of what makes updates small, each against the host loop and a plain definition beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "kernels/cuda/levels.h"
#include "kernels/levels.h"
#include "kernels/vector_ops.h"
#include "tests/kernels/cuda_twins.h"

namespace starling {
namespace {

constexpr LevelCodes kCodes[] = {{4, 7}, {8, 127}};

class CudaCodingTwins : public CudaTwins {
 protected:
  // Calls check(levels, x, y) with every code; blocks of whole groups, so few too that a run has two scales, of others,
  // and one for all. Only what is finite is encoded; y may be anything.
  template <typename F>
  void with_levels(F check) {
    with_each([&](std::vector<float> x, const std::vector<float>& y) {
      for (float& value : x) value = std::isfinite(value) ? value : std::copysign(1.0f, value);
      for (const LevelCodes& codes : kCodes) {
        for (const size_t block : {size_t{512}, size_t{384}, size_t{100}, std::max<size_t>(x.size(), 1)}) {
          SCOPED_TRACE(std::to_string(codes.bits) + " bits, blocks of " + std::to_string(block));
          check(BlockedLevels{codes, block}, x, y);
        }
      }
    });
  }
};

// Calls use(block, its first element, its length, its codes).
template <typename Byte, typename F>
void each_block(const BlockedLevels& levels, size_t count, Byte* codes, F use) {
  for (size_t b = 0; b < levels.blocks(count); ++b) {
    const size_t begin = b * levels.block;
    use(b, begin, std::min(levels.block, count - begin), codes + levels.bytes(begin));
  }
}

// As the codecs choose them; that of every third block only half as large, so that codes are clamped.
std::vector<float> scales_of(const BlockedLevels& levels, const std::vector<float>& x) {
  std::vector<float> scales;
  for (size_t begin = 0; begin < x.size(); begin += levels.block) {
    const float largest = max_abs(x.data() + begin, std::min(levels.block, x.size() - begin));
    const float scale = largest / static_cast<float>(levels.codes.levels);
    scales.push_back(scale < 1e-30f ? 0 : scales.size() % 3 == 2 ? 0.5f * scale : scale);
  }
  return scales;
}

std::vector<std::byte> encoded_on_host(const BlockedLevels& levels, const std::vector<float>& x,
                                       const std::vector<float>& scales, uint64_t rng_seed) {
  std::vector<std::byte> codes(levels.bytes(x.size()));
  each_block(levels, x.size(), codes.data(), [&](size_t b, size_t begin, size_t length, std::byte* out) {
    const float inverse = scales[b] > 0 ? 1 / scales[b] : 0;
    levels_encode(levels.codes, x.data() + begin, length, inverse, rng_seed, begin, out);
  });
  return codes;
}

// By the definition, element by element.
void expect_next_to(const BlockedLevels& levels, const std::vector<float>& x, const std::vector<float>& scales,
                    const std::vector<std::byte>& bytes) {
  size_t wrong = 0;
  each_block(levels, x.size(), bytes.data(), [&](size_t b, size_t begin, size_t length, const std::byte* codes) {
    const double most = levels.codes.levels;
    for (size_t i = 0; i < length; ++i) {
      const double value = x[begin + i], level = level_of(levels.codes, codes, i);
      const double scaled = scales[b] > 0 ? std::clamp(value / static_cast<double>(scales[b]), -most, most) : 0;
      wrong += std::fabs(level - scaled) > 1.001;
    }
  });
  EXPECT_EQ(wrong, 0u);
}

TEST_P(CudaCodingTwins, LevelsEncode) {
  with_levels([&](const BlockedLevels& levels, const std::vector<float>& x, const std::vector<float>&) {
    const uint64_t rng_seed = rng_();
    const std::vector<float> scales = scales_of(levels, x);
    const std::vector<std::byte> codes = encoded_on_host(levels, x, scales, rng_seed);
    std::byte* const out = room<std::byte>(codes.size());
    levels_encode_cuda(levels, upload(x), x.size(), upload(scales), rng_seed, out, stream());
    EXPECT_EQ(download(out, codes.size()), codes);
    expect_next_to(levels, x, scales, codes);
  });
}

// Decoded, merged into a sum, and taken from the vector itself: what is left is its residual.
TEST_P(CudaCodingTwins, LevelsDecodeAndAxpy) {
  with_levels([&](const BlockedLevels& levels, const std::vector<float>& x, const std::vector<float>& y) {
    const size_t count = x.size();
    const std::vector<float> scales = scales_of(levels, x);
    const std::vector<std::byte> codes = encoded_on_host(levels, x, scales, rng_());
    const std::byte* const device_codes = upload(codes);
    const float* const device_scales = upload(scales);
    float* const values = room<float>(count);
    float* const sum = upload(y);
    float* const residual = upload(x);
    levels_decode_cuda(levels, device_codes, count, device_scales, values, stream());
    levels_axpy_cuda(levels, 0.3f, device_codes, count, device_scales, sum, stream());
    levels_axpy_cuda(levels, -1, device_codes, count, device_scales, residual, stream());
    std::vector<float> host_values(count), host_sum = y, host_residual = x, defined(count), defined_sum = y;
    each_block(levels, count, codes.data(), [&](size_t b, size_t begin, size_t length, const std::byte* block) {
      levels_decode(levels.codes, block, length, scales[b], host_values.data() + begin);
      levels_axpy(levels.codes, 0.3f, block, length, scales[b], host_sum.data() + begin);
      levels_axpy(levels.codes, -1, block, length, scales[b], host_residual.data() + begin);
      for (size_t i = 0; i < length; ++i) {
        defined[begin + i] = scales[b] * static_cast<float>(level_of(levels.codes, block, i));
        defined_sum[begin + i] += 0.3f * defined[begin + i];
      }
    });
    EXPECT_EQ(bits_of(download(values, count)), bits_of(host_values));
    EXPECT_EQ(bits_of(host_values), bits_of(defined));
    EXPECT_EQ(bits_but_nan(download(sum, count)), bits_but_nan(host_sum));
    EXPECT_EQ(bits_but_nan(host_sum), bits_but_nan(defined_sum));
    EXPECT_EQ(bits_of(download(residual, count)), bits_of(host_residual));
  });
}

TEST_P(CudaCodingTwins, BlockMaxAbs) {
  with_each([&](const std::vector<float>& x, const std::vector<float>&) {
    for (const size_t block : {size_t{512}, size_t{100}, std::max<size_t>(x.size(), 1)}) {
      const size_t blocks = (x.size() + block - 1) / block;
      uint32_t* const bits = room<uint32_t>(blocks);
      block_max_abs_cuda(upload(x), x.size(), block, bits, stream());
      std::vector<uint32_t> expected(blocks);
      for (size_t i = 0; i < x.size(); ++i) {
        uint32_t& largest = expected[i / block];
        largest = std::max(largest, std::bit_cast<uint32_t>(std::fabs(x[i])));
      }
      EXPECT_EQ(download(bits, blocks), expected) << block;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Grids, CudaCodingTwins, testing::ValuesIn(kHostileGrids), grid_name);

}  // namespace
}  // namespace starling
