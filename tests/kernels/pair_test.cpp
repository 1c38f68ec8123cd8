#include "kernels/pair.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kernels/cast.h"
#include "kernels/fp16_element.h"
#include "tests/kernels/inputs.h"
#include "tests/kernels/targets.h"

namespace starling {
namespace {

struct Format {
  const char* name;
  size_t bytes;
  bool (*write)(const float*, size_t, std::byte*);
  PairSums (*sums)(const std::byte*, const std::byte*, size_t);
  void (*apply)(float, const std::byte*, const std::byte*, size_t, float*);
};

constexpr Format kFormats[] = {
    {"f32", 4, f32_to_bytes, pair_sums_f32, pair_apply_f32},
    {"bf16", 2, f32_to_bf16, pair_sums_bf16, pair_apply_bf16},
    {"fp16", 2, f32_to_fp16, pair_sums_fp16, pair_apply_fp16},
};

// Three bytes off any alignment, with a guard behind.
struct Payload {
  std::vector<std::byte> bytes;
  size_t value_bytes;
  bool is_fp16;

  Payload(const Format& format, const std::vector<float>& x)
      : bytes(x.size() * format.bytes + 3), value_bytes(format.bytes), is_fp16(format.write == f32_to_fp16) {
    EXPECT_TRUE(format.write(x.data(), x.size(), bytes.data() + 3));
  }
  const std::byte* data() const { return bytes.data() + 3; }
  float value(size_t i) const {
    uint32_t stored = 0;
    std::memcpy(reinterpret_cast<char*>(&stored) + (4 - value_bytes), data() + i * value_bytes, value_bytes);
    return std::bit_cast<float>(is_fp16 ? fp16_to_float_bits(static_cast<uint16_t>(stored >> 16)) : stored);
  }
};

TEST(Pair, ApplyIsDifferenceMultiplyAdd) {
  TestRng rng(draw_rng_seed());
  for (const Format& format : kFormats) {
    for (size_t count : kTestSizes) {
      const Payload own(format, hostile_vector(rng, count));
      const Payload peer(format, hostile_vector(rng, count));
      const std::vector<float> x = hostile_vector(rng, count);
      const float coefficient = normal_vector(rng, 1, 0.5f)[0];
      std::vector<float> expected = x;
      for (size_t i = 0; i < count; ++i) {
        const volatile float difference = peer.value(i) - own.value(i);
        const volatile float product = coefficient * difference;
        expected[i] = x[i] + product;
      }
      for_each_target([&] {
        std::vector<float> got = x;
        format.apply(coefficient, own.data(), peer.data(), count, got.data());
        for (size_t i = 0; i < count; ++i) {  // a NaN (infinity minus infinity) may differ in its sign bit
          if (std::isnan(expected[i])) got[i] = expected[i];
        }
        EXPECT_EQ(bits_of(got), bits_of(expected)) << format.name << " " << count;
      });
    }
  }
}

TEST(Pair, SumsMatchAWiderSumAndDoNotDependOnOrderOrTarget) {
  TestRng rng(draw_rng_seed());
  for (const Format& format : kFormats) {
    for (size_t count : kTestSizes) {
      const Payload own(format, normal_vector(rng, count, 2.0f));
      const Payload peer(format, normal_vector(rng, count, 2.0f));
      long double squares = 0;
      float largest = 0;
      for (size_t i = 0; i < count; ++i) {
        const float difference = peer.value(i) - own.value(i);
        squares += static_cast<long double>(difference) * difference;
        largest = std::max(largest, std::fabs(difference));
      }
      const PairSums chosen = format.sums(own.data(), peer.data(), count);
      EXPECT_NEAR(chosen.squared_distance, static_cast<double>(squares), 1e-13 * static_cast<double>(squares));
      EXPECT_EQ(chosen.max_abs_difference, largest);
      for_each_target([&] {
        for (const PairSums& sums :
             {format.sums(own.data(), peer.data(), count), format.sums(peer.data(), own.data(), count)}) {
          EXPECT_EQ(sums.squared_distance, chosen.squared_distance) << format.name << " " << count;
          EXPECT_EQ(sums.max_abs_difference, chosen.max_abs_difference) << format.name << " " << count;
        }
      });
    }
  }
}

// Every pair of neighbours, so that each binary16 is read on every target: denormals, both zeros, what is not finite.
TEST(Pair, EveryFp16IsReadAsItsValue) {
  std::vector<uint16_t> own(0x10000), peer(0x10000);
  std::vector<float> expected(0x10000);
  for (uint32_t half = 0; half < 0x10000; ++half) {
    peer[half] = static_cast<uint16_t>(half);
    expected[half] = 0.0f + std::bit_cast<float>(fp16_to_float_bits(peer[half]));
  }
  for_each_target([&] {
    std::vector<float> x(0x10000);
    pair_apply_fp16(1, reinterpret_cast<const std::byte*>(own.data()), reinterpret_cast<const std::byte*>(peer.data()),
                    x.size(), x.data());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(std::isnan(expected[i]) ? std::isnan(x[i]) : x[i] == expected[i]) << i;
    }
  });
}

TEST(Pair, ADifferenceBeyondFloatShowsInTheMaximum) {
  for (const Format& format : kFormats) {
    if (format.write == f32_to_fp16) continue;  // its largest are 65504 and -65504
    for (size_t at : {size_t{0}, size_t{16}, size_t{20}}) {
      std::vector<float> a(21, 1.0f), b(21, 1.0f);
      a[at] = FLT_MAX;
      b[at] = -FLT_MAX;
      const Payload own(format, a), peer(format, b);
      for_each_target(
          [&] { EXPECT_EQ(format.sums(own.data(), peer.data(), 21).max_abs_difference, INFINITY) << format.name; });
    }
  }
}

}  // namespace
}  // namespace starling
