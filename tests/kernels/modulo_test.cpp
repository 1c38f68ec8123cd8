#include "kernels/modulo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/modulo_element.h"
#include "tests/kernels/inputs.h"
#include "tests/kernels/targets.h"

namespace starling {
namespace {

// r_i, written out by hand from the format's definition.
uint32_t plain_weight(size_t i) {
  const auto mix = [](uint32_t v) {
    v = (v ^ (v >> 16)) * 2246822507u;
    v = (v ^ (v >> 13)) * 3266489909u;
    return v ^ (v >> 16);
  };
  const uint32_t column = mix(static_cast<uint32_t>(i % 4096) + 2654435769u) | 1u;
  const uint32_t row = mix(static_cast<uint32_t>(i / 4096) + 2135587861u) | 1u;
  return column * row;
}

int plain_difference(int own, int own_shift, int peer, int peer_shift) {
  int d = (peer * (1 << peer_shift) - own * (1 << own_shift)) % 256;
  if (d < -128) d += 256;
  if (d > 127) d -= 256;
  return d == -128 ? 0 : d;
}

TEST(Modulo, EncodeMatchesThePlainDefinition) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kTestSizes) {
    for (int exponent : {-100, -20, -3, 0, 7, 98}) {
      std::vector<float> x = hostile_vector(rng, count);
      const float limit = std::ldexp(1.0f, exponent + 30);
      for (float& value : x) value = std::clamp(value, -limit, limit);
      for (size_t i = 0; i < count; i += 2) {  // small multiples and halves of the step, where rounding shows
        x[i] = std::ldexp(static_cast<float>(static_cast<int>(rng() % 4001) - 2000) / 2, exponent);
      }
      std::vector<std::byte> codes(count);
      uint32_t projection = 0;
      float largest = 0;
      for (size_t i = 0; i < count; ++i) {
        const auto q = static_cast<int64_t>(std::nearbyint(std::ldexp(double{x[i]}, -exponent)));
        codes[i] = static_cast<std::byte>(q);
        projection += plain_weight(i) * static_cast<uint32_t>(q);
        largest = std::max(largest, std::fabs(x[i]));
      }
      for_each_target([&] {
        std::vector<std::byte> got(count + 7, std::byte{0xA5});
        const ModuloEncoded encoded = modulo_encode(x.data(), count, exponent, got.data() + 3);
        EXPECT_TRUE(std::equal(codes.begin(), codes.end(), got.begin() + 3)) << count << " " << exponent;
        EXPECT_EQ(encoded.projection, projection) << count << " " << exponent;
        EXPECT_EQ(encoded.max_abs_bits, std::bit_cast<uint32_t>(largest)) << count << " " << exponent;
        for (size_t i : {size_t{0}, size_t{1}, size_t{2}, count + 3, count + 4, count + 5, count + 6}) {
          EXPECT_EQ(got[i], std::byte{0xA5}) << "wrote outside at " << i;
        }
      });
    }
  }
}

TEST(Modulo, EncodeRoundsJustBelowAHalfDown) {
  const std::vector<float> x(33, 0.49999997f);
  for_each_target([&] {
    std::vector<std::byte> codes(x.size());
    EXPECT_EQ(modulo_encode(x.data(), x.size(), 0, codes.data()).projection, 0u);
    EXPECT_EQ(codes, std::vector<std::byte>(x.size()));
  });
}

TEST(Modulo, EncodeReportsNonfiniteAndHugeValuesAtEveryPlace) {
  for (size_t count : {size_t{1}, size_t{19}, size_t{4100}}) {
    for_each_target([&] {
      for (float bad : {NAN, -NAN, INFINITY, -INFINITY, FLT_MAX}) {
        for (size_t at = 0; at<count; at += count> 100 ? 683 : 1) {
          std::vector<float> x(count, 0.25f);
          x[at] = bad;
          std::vector<std::byte> codes(count);
          EXPECT_EQ(modulo_encode(x.data(), count, -10, codes.data()).max_abs_bits,
                    std::bit_cast<uint32_t>(bad) & 0x7FFFFFFFu);
        }
      }
    });
  }
}

TEST(Modulo, PairMatchesThePlainDefinition) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kTestSizes) {
    for (int shift = -6; shift <= 6; ++shift) {
      const int own_shift = std::max(shift, 0);
      const int peer_shift = std::max(-shift, 0);
      const std::vector<std::byte> own = random_bytes(rng, count + 1);
      const std::vector<std::byte> peer = random_bytes(rng, count + 1);
      ModuloPair expected;
      for (size_t i = 0; i < count; ++i) {
        const int d = plain_difference(std::to_integer<int>(own[i + 1]), own_shift, std::to_integer<int>(peer[i + 1]),
                                       peer_shift);
        expected.projection += plain_weight(i) * static_cast<uint32_t>(d);
        expected.sum_squares += static_cast<uint64_t>(d * d);
        expected.max_abs = std::max(expected.max_abs, static_cast<uint32_t>(std::abs(d)));
      }
      for_each_target([&] {
        const ModuloPair pair = modulo_pair(own.data() + 1, own_shift, peer.data() + 1, peer_shift, count);
        EXPECT_EQ(pair.projection, expected.projection) << count << " " << shift;
        EXPECT_EQ(pair.sum_squares, expected.sum_squares) << count << " " << shift;
        EXPECT_EQ(pair.max_abs, expected.max_abs) << count << " " << shift;
        const ModuloPair swapped = modulo_pair(peer.data() + 1, peer_shift, own.data() + 1, own_shift, count);
        EXPECT_EQ(swapped.projection, 0u - expected.projection);
        EXPECT_EQ(swapped.sum_squares, expected.sum_squares);
      });
    }
  }
}

TEST(Modulo, ExtremeDifferencesDoNotOverflowTheRowSums) {
  const size_t count = 3 * 4096 + 5;
  const std::vector<std::byte> own(count, std::byte{0});
  const std::vector<std::byte> peer(count, std::byte{127});
  for_each_target([&] {
    const ModuloPair pair = modulo_pair(own.data(), 0, peer.data(), 0, count);
    EXPECT_EQ(pair.sum_squares, uint64_t{127 * 127} * count);
    EXPECT_EQ(pair.max_abs, 127u);
  });
}

TEST(Modulo, ApplyIsOneMultiplyAndOneAdd) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kTestSizes) {
    for (int shift = -6; shift <= 6; ++shift) {
      const int own_shift = std::max(shift, 0);
      const int peer_shift = std::max(-shift, 0);
      const std::vector<std::byte> own = random_bytes(rng, count);
      const std::vector<std::byte> peer = random_bytes(rng, count);
      const std::vector<float> x = hostile_vector(rng, count);
      const float factor = normal_vector(rng, 1, 0.01f)[0];
      std::vector<float> expected = x;
      for (size_t i = 0; i < count; ++i) {
        const int d =
            plain_difference(std::to_integer<int>(own[i]), own_shift, std::to_integer<int>(peer[i]), peer_shift);
        EXPECT_EQ(modulo_difference(std::to_integer<uint8_t>(own[i]), own_shift, std::to_integer<uint8_t>(peer[i]),
                                    peer_shift),
                  d);
        const volatile float product = factor * static_cast<float>(d);
        expected[i] = x[i] + product;
      }
      for_each_target([&] {
        std::vector<float> got = x;
        modulo_apply(factor, own.data(), own_shift, peer.data(), peer_shift, count, got.data());
        EXPECT_EQ(bits_of(got), bits_of(expected)) << count << " " << shift;
      });
    }
  }
}

TEST(Modulo, WeightsAreOddAndHardlyEverRepeat) {
  std::set<uint32_t> seen;
  constexpr size_t kCount = 1 << 16;
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(plain_weight(i) % 2, 1u);
    seen.insert(plain_weight(i));
  }
  EXPECT_GT(seen.size(), kCount - 8);  // one repeat is what 2^16 draws of 2^31 values give on average
}

}  // namespace
}  // namespace starling
