#include "kernels/cast.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/fp16_element.h"
#include "tests/kernels/inputs.h"
#include "tests/kernels/targets.h"

namespace starling {
namespace {

float float_of_bf16(uint16_t half) { return std::bit_cast<float>(uint32_t{half} << 16); }

// The nearer of the two neighbours, in doubles; the even one where they are equally near.
uint16_t nearest_bf16(float value) {
  const uint16_t toward_zero = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  const uint16_t away = static_cast<uint16_t>(toward_zero + 1);
  if (!std::isfinite(float_of_bf16(away))) return toward_zero;
  const double low_gap = std::fabs(double{value} - float_of_bf16(toward_zero));
  const double high_gap = std::fabs(double{float_of_bf16(away)} - value);
  if (low_gap != high_gap) return low_gap < high_gap ? toward_zero : away;
  return toward_zero % 2 == 0 ? toward_zero : away;
}

std::vector<uint16_t> to_bf16(const std::vector<float>& x, bool* finite) {
  std::vector<uint16_t> out(x.size());
  *finite = f32_to_bf16(x.data(), x.size(), reinterpret_cast<std::byte*>(out.data()));
  return out;
}

TEST(Cast, Bf16RoundsEveryPrefixAtEveryBoundary) {
  std::vector<float> x;
  for (uint32_t prefix = 0; prefix < 0x10000; ++prefix) {
    for (uint32_t low : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      const float value = std::bit_cast<float>(prefix << 16 | low);
      if (std::isfinite(value)) x.push_back(value);
    }
  }
  std::vector<uint16_t> expected;
  for (float value : x) expected.push_back(nearest_bf16(value));
  for_each_target([&] {
    bool finite = false;
    EXPECT_EQ(to_bf16(x, &finite), expected);
    EXPECT_TRUE(finite);
  });
}

double value_of_fp16(uint16_t half) {
  const int exponent = half >> 10 & 31, mantissa = half & 0x3FF;
  const double sign = half >> 15 != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25));
}

// By search among the neighbours in doubles; the even one of two that are equally near.
uint16_t nearest_fp16(float value) {
  const double magnitude = std::fabs(double{value});
  uint16_t low = 0, high = 0x7BFF;  // finite ones order like their numbers
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (value_of_fp16(middle) <= magnitude ? low : high) = middle;
  }
  const double low_gap = magnitude - value_of_fp16(low), high_gap = value_of_fp16(high) - magnitude;
  const bool upper = low_gap > high_gap || (low_gap == high_gap && low % 2 == 1);
  return static_cast<uint16_t>((upper ? high : low) | (std::signbit(value) ? 0x8000 : 0));
}

std::vector<uint16_t> to_fp16(const std::vector<float>& x, bool* finite) {
  std::vector<uint16_t> out(x.size());
  *finite = f32_to_fp16(x.data(), x.size(), reinterpret_cast<std::byte*>(out.data()));
  return out;
}

// A binary16 keeps 10 of a float's 23 bits: the boundaries are at bits 12 and 13, and at every bit of a denormal.
TEST(Cast, Fp16RoundsEveryPrefixAtEveryBoundary) {
  std::vector<float> x;
  for (uint32_t prefix = 0; prefix < 0x10000; ++prefix) {
    for (uint32_t low : {0x0000u, 0x0001u, 0x0FFFu, 0x1000u, 0x1001u, 0x2000u, 0x3000u, 0x7FFFu, 0x8000u, 0xFFFFu}) {
      const float value = std::bit_cast<float>(prefix << 16 | low);
      if (std::isfinite(value)) x.push_back(value);
    }
  }
  std::vector<uint16_t> expected, element;
  for (float value : x) {
    expected.push_back(nearest_fp16(value));
    element.push_back(fp16_of(std::bit_cast<uint32_t>(value)));
  }
  EXPECT_EQ(element, expected);
  for_each_target([&] {
    bool finite = false;
    EXPECT_EQ(to_fp16(x, &finite), expected);
    EXPECT_TRUE(finite);
  });
}

TEST(Cast, EveryFp16StandsForItsValue) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float value = std::bit_cast<float>(fp16_to_float_bits(static_cast<uint16_t>(half)));
    const double expected = value_of_fp16(static_cast<uint16_t>(half));
    ASSERT_TRUE(std::isnan(expected) ? std::isnan(value) : double{value} == expected) << half;
    ASSERT_EQ(std::signbit(value), half >= 0x8000u) << half;
  }
}

TEST(Cast, Fp16NeverTurnsAFiniteValueOrANanIntoAnInfinity) {
  for_each_target([&] {
    bool finite = false;
    const std::vector<uint16_t> big = to_fp16({FLT_MAX, -FLT_MAX, 65504, 65519.996f, 65520, -1e5f}, &finite);
    EXPECT_EQ(big, (std::vector<uint16_t>{0x7BFF, 0xFBFF, 0x7BFF, 0x7BFF, 0x7BFF, 0xFBFF}));
    EXPECT_TRUE(finite);
    for (uint32_t low : {1u, 0x0FFFu, 0x2000u, 0xFFFFu, 0x400000u, 0x7FFFFFu}) {
      EXPECT_TRUE(std::isnan(value_of_fp16(to_fp16({std::bit_cast<float>(0x7F800000u | low)}, &finite)[0]))) << low;
      EXPECT_FALSE(finite);
    }
    EXPECT_EQ(to_fp16({-INFINITY}, &finite)[0], 0xFC00);
    EXPECT_FALSE(finite);
  });
}

TEST(Cast, EveryBf16ComesBackAsItsValue) {
  std::vector<uint16_t> halves(0x10000);
  std::vector<uint32_t> expected;
  for (uint32_t half = 0; half < 0x10000; ++half) {
    halves[half] = static_cast<uint16_t>(half);
    expected.push_back(half << 16);
  }
  for_each_target([&] {
    for (size_t first : {0, 1, 0xFFFE}) {  // at other alignments too
      const size_t count = halves.size() - first;
      std::vector<float> got(count);
      bf16_to_f32(reinterpret_cast<const std::byte*>(halves.data() + first), count, got.data());
      EXPECT_EQ(bits_of(got), std::vector<uint32_t>(expected.begin() + static_cast<ptrdiff_t>(first), expected.end()));
    }
  });
}

TEST(Cast, Bf16NeverTurnsAFiniteValueOrANanIntoAnInfinity) {
  for_each_target([&] {
    bool finite = false;
    const std::vector<uint16_t> big = to_bf16({FLT_MAX, -FLT_MAX}, &finite);
    EXPECT_EQ(big, (std::vector<uint16_t>{0x7F7F, 0xFF7F}));
    EXPECT_TRUE(finite);
    for (uint32_t low : {1u, 0x7FFFu, 0x8000u, 0xFFFFu, 0x400000u, 0x7FFFFFu}) {
      const float nan = std::bit_cast<float>(0x7F800000u | low);
      EXPECT_TRUE(std::isnan(float_of_bf16(to_bf16({nan}, &finite)[0]))) << low;
      EXPECT_FALSE(finite);
    }
    EXPECT_EQ(to_bf16({-INFINITY}, &finite)[0], 0xFF80);
    EXPECT_FALSE(finite);
  });
}

TEST(Cast, ANonfiniteValueIsSeenAtEveryPlace) {
  TestRng rng(draw_rng_seed());
  for (size_t count : {size_t{1}, size_t{3}, size_t{16}, size_t{67}}) {
    for_each_target([&] {
      for (size_t at = 0; at < count; ++at) {
        std::vector<float> x = hostile_vector(rng, count);
        std::vector<std::byte> out(4 * count);
        EXPECT_TRUE(f32_to_bytes(x.data(), count, out.data()));
        EXPECT_TRUE(all_finite_f32(out.data(), count));
        EXPECT_TRUE(f32_to_bf16(x.data(), count, out.data()));
        EXPECT_TRUE(all_finite_bf16(out.data(), count));
        EXPECT_TRUE(f32_to_fp16(x.data(), count, out.data()));
        EXPECT_TRUE(all_finite_fp16(out.data(), count));
        x[at] = at % 2 == 0 ? NAN : -INFINITY;
        EXPECT_FALSE(f32_to_bytes(x.data(), count, out.data()));
        EXPECT_FALSE(all_finite_f32(out.data(), count));
        EXPECT_FALSE(f32_to_bf16(x.data(), count, out.data()));
        EXPECT_FALSE(all_finite_bf16(out.data(), count));
        EXPECT_FALSE(f32_to_fp16(x.data(), count, out.data()));
        EXPECT_FALSE(all_finite_fp16(out.data(), count));
      }
    });
  }
}

TEST(Cast, BytesAreTheFloatsAtAnyAlignment) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kTestSizes) {
    const std::vector<float> x = hostile_vector(rng, count);
    for_each_target([&] {
      std::vector<std::byte> out(4 * count + 9, std::byte{0xA5});
      EXPECT_TRUE(f32_to_bytes(x.data(), count, out.data() + 5));
      EXPECT_TRUE(all_finite_f32(out.data() + 5, count));
      EXPECT_TRUE(count == 0 || std::memcmp(out.data() + 5, x.data(), 4 * count) == 0);
      for (size_t i = 0; i < 5; ++i) EXPECT_EQ(out[i], std::byte{0xA5});
      for (size_t i = 4 * count + 5; i < out.size(); ++i) EXPECT_EQ(out[i], std::byte{0xA5});
    });
  }
}

}  // namespace
}  // namespace starling
