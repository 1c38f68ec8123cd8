#include "kernels/modulo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>

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

template <int kBits>
int plain_difference(int own, int own_shift, int peer, int peer_shift) {
  constexpr int kRange = 1 << kBits, kTie = kRange / 2;
  int d = (peer * (1 << peer_shift) - own * (1 << own_shift)) % kRange;
  if (d < -kTie) d += kRange;
  if (d > kTie - 1) d -= kRange;
  return d == -kTie ? 0 : d;
}

// The codes of elements, written and read by hand as the format says: of 4 bits, a row of 4096 at a time in two halves.
template <int kBits>
size_t plain_bytes(size_t count) {
  size_t bytes = 0;
  for (size_t start = 0; start < count; start += 4096) {
    const size_t n = std::min<size_t>(4096, count - start);
    bytes += kBits == 8 ? n : (n + 1) / 2;
  }
  return bytes;
}
// The byte of element i, and whether it lies in the upper half of it.
template <int kBits>
std::pair<size_t, bool> plain_place(size_t i, size_t count) {
  if (kBits == 8) return {i, false};
  const size_t row = i / 4096, n = std::min<size_t>(4096, count - row * 4096), half = (n + 1) / 2, at = i % 4096;
  return at < half ? std::pair(row * 2048 + at, false) : std::pair(row * 2048 + at - half, true);
}
template <int kBits>
void put_code(std::vector<std::byte>& codes, size_t i, size_t count, int64_t q) {
  const auto [byte, upper] = plain_place<kBits>(i, count);
  const int64_t code = q & ((1 << kBits) - 1);
  codes[byte] |= static_cast<std::byte>(upper ? code << 4 : code);
}
template <int kBits>
int code_at(const std::byte* codes, size_t i, size_t count) {
  const auto [byte, upper] = plain_place<kBits>(i, count);
  return std::to_integer<int>(upper ? codes[byte] >> 4 : codes[byte]) & ((1 << kBits) - 1);
}
// Any codes of so many elements; what stands for no element is zero.
template <int kBits>
std::vector<std::byte> random_codes(TestRng& rng, size_t count) {
  std::vector<std::byte> codes(plain_bytes<kBits>(count));
  for (size_t i = 0; i < count; ++i) put_code<kBits>(codes, i, count, static_cast<int64_t>(rng() & 0xFF));
  return codes;
}

template <class Bits>
class Modulo : public testing::Test {};
using EveryBits = testing::Types<std::integral_constant<int, 8>, std::integral_constant<int, 4>>;
TYPED_TEST_SUITE(Modulo, EveryBits);

TYPED_TEST(Modulo, EncodeMatchesThePlainDefinition) {
  constexpr int kBits = TypeParam::value;
  TestRng rng(draw_rng_seed());
  for (size_t count : kTestSizes) {
    for (int exponent : {-100, -20, -3, 0, 7, 98}) {
      std::vector<float> x = hostile_vector(rng, count);
      const float limit = std::ldexp(1.0f, exponent + 30);
      for (float& value : x) value = std::clamp(value, -limit, limit);
      for (size_t i = 0; i < count; i += 2) {  // small multiples and halves of the step, where rounding shows
        x[i] = std::ldexp(static_cast<float>(static_cast<int>(rng() % 4001) - 2000) / 2, exponent);
      }
      const size_t bytes = plain_bytes<kBits>(count);
      std::vector<std::byte> codes(bytes);
      uint32_t projection = 0;
      float largest = 0;
      for (size_t i = 0; i < count; ++i) {
        const auto q = static_cast<int64_t>(std::nearbyint(std::ldexp(double{x[i]}, -exponent)));
        put_code<kBits>(codes, i, count, q);
        projection += plain_weight(i) * static_cast<uint32_t>(q);
        largest = std::max(largest, std::fabs(x[i]));
      }
      for_each_target([&] {
        std::vector<std::byte> got(bytes + 7, std::byte{0xA5});
        const ModuloEncoded encoded = modulo_encode<kBits>(x.data(), count, exponent, got.data() + 3);
        EXPECT_TRUE(std::equal(codes.begin(), codes.end(), got.begin() + 3)) << count << " " << exponent;
        EXPECT_EQ(encoded.projection, projection) << count << " " << exponent;
        EXPECT_EQ(encoded.max_abs_bits, std::bit_cast<uint32_t>(largest)) << count << " " << exponent;
        for (size_t i : {size_t{0}, size_t{1}, size_t{2}, bytes + 3, bytes + 4, bytes + 5, bytes + 6}) {
          EXPECT_EQ(got[i], std::byte{0xA5}) << "wrote outside at " << i;
        }
      });
    }
  }
}

TYPED_TEST(Modulo, EncodeRoundsJustBelowAHalfDown) {
  constexpr int kBits = TypeParam::value;
  const std::vector<float> x(33, 0.49999997f);
  for_each_target([&] {
    std::vector<std::byte> codes(modulo_code_bytes<kBits>(x.size()));
    EXPECT_EQ(modulo_encode<kBits>(x.data(), x.size(), 0, codes.data()).projection, 0u);
    EXPECT_EQ(codes, std::vector<std::byte>(codes.size()));
  });
}

TYPED_TEST(Modulo, EncodeReportsNonfiniteAndHugeValuesAtEveryPlace) {
  constexpr int kBits = TypeParam::value;
  for (size_t count : {size_t{1}, size_t{19}, size_t{4100}}) {
    for_each_target([&] {
      for (float bad : {NAN, -NAN, INFINITY, -INFINITY, FLT_MAX}) {
        for (size_t at = 0; at < count; at += count > 100 ? 683 : 1) {
          std::vector<float> x(count, 0.25f);
          x[at] = bad;
          std::vector<std::byte> codes(modulo_code_bytes<kBits>(count));
          EXPECT_EQ(modulo_encode<kBits>(x.data(), count, -10, codes.data()).max_abs_bits,
                    std::bit_cast<uint32_t>(bad) & 0x7FFFFFFFu);
        }
      }
    });
  }
}

TYPED_TEST(Modulo, PairMatchesThePlainDefinition) {
  constexpr int kBits = TypeParam::value;
  TestRng rng(draw_rng_seed());
  for (size_t count : kTestSizes) {
    for (int shift = -6; shift <= 6; ++shift) {
      const int own_shift = std::max(shift, 0);
      const int peer_shift = std::max(-shift, 0);
      std::vector<std::byte> own = random_codes<kBits>(rng, count), peer = random_codes<kBits>(rng, count);
      own.insert(own.begin(), std::byte{0xA5});  // off any alignment
      peer.insert(peer.begin(), std::byte{0x5A});
      ModuloPair expected;
      for (size_t i = 0; i < count; ++i) {
        const int d = plain_difference<kBits>(code_at<kBits>(own.data() + 1, i, count), own_shift,
                                              code_at<kBits>(peer.data() + 1, i, count), peer_shift);
        expected.projection += plain_weight(i) * static_cast<uint32_t>(d);
        expected.sum_squares += static_cast<uint64_t>(d * d);
        expected.max_abs = std::max(expected.max_abs, static_cast<uint32_t>(std::abs(d)));
      }
      for_each_target([&] {
        const ModuloPair pair = modulo_pair<kBits>(own.data() + 1, own_shift, peer.data() + 1, peer_shift, count);
        EXPECT_EQ(pair.projection, expected.projection) << count << " " << shift;
        EXPECT_EQ(pair.sum_squares, expected.sum_squares) << count << " " << shift;
        EXPECT_EQ(pair.max_abs, expected.max_abs) << count << " " << shift;
        const ModuloPair swapped = modulo_pair<kBits>(peer.data() + 1, peer_shift, own.data() + 1, own_shift, count);
        EXPECT_EQ(swapped.projection, 0u - expected.projection);
        EXPECT_EQ(swapped.sum_squares, expected.sum_squares);
      });
    }
  }
}

TYPED_TEST(Modulo, ExtremeDifferencesDoNotOverflowTheRowSums) {
  constexpr int kBits = TypeParam::value;
  const size_t count = 3 * 4096 + 5;
  constexpr int kLargest = (1 << (kBits - 1)) - 1;
  const std::vector<std::byte> own(plain_bytes<kBits>(count));
  std::vector<std::byte> peer(own.size());
  for (size_t i = 0; i < count; ++i) put_code<kBits>(peer, i, count, kLargest);
  for_each_target([&] {
    const ModuloPair pair = modulo_pair<kBits>(own.data(), 0, peer.data(), 0, count);
    EXPECT_EQ(pair.sum_squares, uint64_t{kLargest * kLargest} * count);
    EXPECT_EQ(pair.max_abs, static_cast<uint32_t>(kLargest));
  });
}

TYPED_TEST(Modulo, ApplyIsOneMultiplyAndOneAdd) {
  constexpr int kBits = TypeParam::value;
  TestRng rng(draw_rng_seed());
  for (size_t count : kTestSizes) {
    for (int shift = -6; shift <= 6; ++shift) {
      const int own_shift = std::max(shift, 0);
      const int peer_shift = std::max(-shift, 0);
      const std::vector<std::byte> own = random_codes<kBits>(rng, count), peer = random_codes<kBits>(rng, count);
      const std::vector<float> x = hostile_vector(rng, count);
      const float factor = normal_vector(rng, 1, 0.01f)[0];
      std::vector<float> expected = x;
      for (size_t i = 0; i < count; ++i) {
        const int a = code_at<kBits>(own.data(), i, count), b = code_at<kBits>(peer.data(), i, count);
        const int d = plain_difference<kBits>(a, own_shift, b, peer_shift);
        EXPECT_EQ(modulo_difference<kBits>(static_cast<uint32_t>(a), own_shift, static_cast<uint32_t>(b), peer_shift),
                  d);
        const volatile float product = factor * static_cast<float>(d);
        expected[i] = x[i] + product;
      }
      for_each_target([&] {
        std::vector<float> got = x;
        modulo_apply<kBits>(factor, own.data(), own_shift, peer.data(), peer_shift, count, got.data());
        EXPECT_EQ(bits_of(got), bits_of(expected)) << count << " " << shift;
      });
    }
  }
}

TEST(ModuloWeights, AreOddAndHardlyEverRepeat) {
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
