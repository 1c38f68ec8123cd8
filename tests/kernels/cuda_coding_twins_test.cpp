// The twins of what makes updates small, each against the host loop and a plain definition beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "kernels/cuda/levels.h"
#include "kernels/cuda/rice.h"
#include "kernels/levels.h"
#include "kernels/rice.h"
#include "kernels/vector_ops.h"
#include "tests/kernels/cuda_twins.h"

namespace starling {
namespace {

constexpr LevelCodes kCodes[] = {{1, 1}, {2, 1}, {4, 7}, {8, 127}};

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
      wrong += levels.codes.bits == 1 ? value != 0 && (level > 0) != (value > 0) : std::fabs(level - scaled) > 1.001;
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

// A payload as a member sends it, and where it lies on the GPU.
struct Payload {
  float weight;
  std::vector<float> scales;
  std::vector<std::byte> codes;
};

// Against the definition in double: each product is rounded twice, each sum once.
void expect_merged(const BlockedLevels& levels, const std::vector<Payload>& payloads, const std::vector<float>& sum) {
  std::vector<double> exact(sum.size()), magnitudes(sum.size());
  for (const Payload& payload : payloads) {
    each_block(levels, sum.size(), payload.codes.data(), [&](size_t b, size_t begin, size_t length, auto* codes) {
      for (size_t i = 0; i < length; ++i) {
        const double decoded = double{payload.scales[b]} * level_of(levels.codes, codes, i);
        const double value = double{payload.weight} * decoded;
        exact[begin + i] += value;
        magnitudes[begin + i] += std::max(std::fabs(value), std::fabs(decoded));
      }
    });
  }
  size_t wrong = 0;
  const double rounding = 1e-7 * static_cast<double>(payloads.size() + 2);
  for (size_t i = 0; i < sum.size(); ++i) {
    if (magnitudes[i] > 3e38) continue;  // a step on the way may be infinite, as on the host
    wrong += !(std::fabs(double{sum[i]} - exact[i]) <= rounding * magnitudes[i] + 1e-44);
  }
  EXPECT_EQ(wrong, 0u);
}

// The bits of one payload after the other added to zeros, however many a launch takes.
TEST_P(CudaCodingTwins, LevelsMerge) {
  with_levels([&](const BlockedLevels& levels, const std::vector<float>& x, const std::vector<float>&) {
    const size_t count = x.size();
    std::vector<Payload> payloads;
    std::vector<LevelTerm> host_terms, device_terms;
    std::vector<float> expected(count), merged(count);
    float* const out = room<float>(count);
    for (const size_t most : {0u, 1u, 2u, 5u, 16u, 17u}) {
      while (payloads.size() < most) {
        std::vector<float> scales = scales_of(levels, x);
        for (float& scale : scales) scale *= payloads.size() % 3 == 1 ? 0.5f : 1.0f;
        std::vector<std::byte> codes = encoded_on_host(levels, x, scales, rng_());
        payloads.push_back({payloads.size() % 2 == 0 ? 0.3f : 1.7f, std::move(scales), std::move(codes)});
        const Payload& last = payloads.back();
        device_terms.push_back({last.weight, reinterpret_cast<std::byte*>(upload(last.scales)), upload(last.codes)});
        each_block(levels, count, last.codes.data(), [&](size_t b, size_t begin, size_t length, auto* block) {
          levels_axpy(levels.codes, last.weight, block, length, last.scales[b], expected.data() + begin);
        });
      }
      levels_merge_cuda(levels, device_terms, out, count, stream());
      EXPECT_EQ(bits_but_nan(download(out, count)), bits_but_nan(expected)) << most;
      expect_merged(levels, payloads, expected);
      if (count > levels.block && levels.block % levels.codes.group_elements() != 0) continue;
      host_terms.clear();
      for (const Payload& payload : payloads) {
        const auto* const scales = reinterpret_cast<const std::byte*>(payload.scales.data());
        host_terms.push_back({payload.weight, scales, payload.codes.data()});
      }
      levels_merge(levels.codes, levels.block, host_terms, merged.data(), count);
      EXPECT_EQ(bits_but_nan(merged), bits_but_nan(expected)) << most;
    }
  });
}

TEST_P(CudaCodingTwins, TakeSigns) {
  with_each([&](std::vector<float> x, const std::vector<float>&) {
    for (float& value : x) value = std::isnan(value) ? std::copysign(1.0f, value) : value;
    for (const float size : {0.0f, 0.3f, FLT_TRUE_MIN}) {
      float* const device_x = upload(x);
      take_signs_cuda(size, device_x, x.size(), stream());
      std::vector<float> host = x, defined = x;
      take_signs(size, host.data(), host.size());
      for (float& value : defined) value = value == 0 ? 0.0f : value > 0 ? size : -size;
      EXPECT_EQ(bits_of(download(device_x, x.size())), bits_of(host)) << size;
      EXPECT_EQ(bits_of(host), bits_of(defined)) << size;
    }
  });
}

void expect_near(double sum, double exact) {
  if (std::isfinite(exact)) {
    EXPECT_NEAR(sum, exact, 1e-12 * exact);
  } else {
    EXPECT_TRUE(std::isnan(exact) ? std::isnan(sum) : sum == exact) << sum;
  }
}

TEST_P(CudaCodingTwins, BlockSums) {
  with_each([&](const std::vector<float>& x, const std::vector<float>&) {
    for (const size_t block : {size_t{512}, size_t{100}, std::max<size_t>(x.size(), 1)}) {
      const size_t blocks = (x.size() + block - 1) / block;
      BlockSums* const device_sums = room<BlockSums>(blocks);
      block_sums_cuda(upload(x), x.size(), block, device_sums, stream());
      const std::vector<BlockSums> sums = download(device_sums, blocks);
      for (size_t b = 0; b < blocks; ++b) {
        const float* const from = x.data() + b * block;
        const size_t length = std::min(block, x.size() - b * block);
        uint32_t largest = 0;
        for (size_t i = 0; i < length; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(std::fabs(from[i])));
        EXPECT_EQ(sums[b].max_abs_bits, largest);
        expect_near(sums[b].magnitudes, sum_abs(from, length));
        expect_near(sums[b].squares, squared_norm(from, length));
      }
    }
  });
}

class CudaRiceTwins : public CudaTwins {
 protected:
  void expect_coded(const std::vector<uint32_t>& indices, unsigned bits, size_t limit) {
    const size_t count = indices.size();
    std::vector<std::byte> bytes((rice_bytes_max(count, limit, bits) + 3) / 4 * 4);
    const size_t unary_bytes = rice_encode(indices.data(), count, bits, bytes.data());
    std::byte* const out = room<std::byte>(bytes.size());
    uint64_t* const found = room<uint64_t>(1);
    rice_encode_cuda(upload(indices), count, bits, limit, room<std::byte>(kRiceScratchBytes), out, found, stream());
    ASSERT_EQ(download(found, 1)[0], unary_bytes);
    EXPECT_EQ(download(out, bytes.size()), bytes);
    std::vector<uint32_t> decoded(count);
    EXPECT_TRUE(rice_decode(bytes.data(), unary_bytes, count, bits, limit, decoded.data()));
    EXPECT_EQ(decoded, indices);
  }
};

TEST_P(CudaRiceTwins, RiceEncode) {
  for (const size_t limit : hostile_sizes()) {
    for (const unsigned share : {100u, 3u, 1u}) {  // one of so many
      std::vector<uint32_t> indices;
      for (uint32_t i = 0; i < limit; ++i) {
        if (rng_() % share == 0) indices.push_back(i);
      }
      for (const unsigned bits : {0u, 1u, 7u, 31u, rice_bits(indices.size(), limit)}) {
        SCOPED_TRACE(std::to_string(indices.size()) + " of " + std::to_string(limit) + ", " + std::to_string(bits));
        expect_coded(indices, bits, limit);
        buffers_.clear();
      }
    }
  }
}

TEST_P(CudaRiceTwins, RiceEncodeOfFarIndices) {
  const std::vector<uint32_t> far = {0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF}, last = {0xFFFFFFFF};
  for (const unsigned bits : {13u, 30u, 31u}) {
    expect_coded(far, bits, size_t{1} << 32);
    expect_coded(last, bits, size_t{1} << 32);
  }
}

INSTANTIATE_TEST_SUITE_P(Grids, CudaCodingTwins, testing::ValuesIn(kHostileGrids), grid_name);
INSTANTIATE_TEST_SUITE_P(Grids, CudaRiceTwins, testing::ValuesIn(kHostileGrids), grid_name);

}  // namespace
}  // namespace starling
