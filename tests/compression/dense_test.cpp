#include "compression/dense.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/fp16_element.h"
#include "tests/kernels/inputs.h"

namespace starling {
namespace {

template <class Element>
class Dense : public testing::Test {
 protected:
  static constexpr size_t kBytes = Element::kBytes;
  static constexpr bool kIsFp16 = Element::kKind == CodecKind::kFp16;

  std::vector<std::byte> payload_of(const std::vector<float>& x) {
    std::vector<std::byte> payload(x.size() * kBytes);
    EXPECT_TRUE(codec_.encode({x.data(), x.size(), MemorySpace::kHost}, {}, payload));
    return payload;
  }

  // Value i of a payload, put together byte by byte: the wire is little-endian.
  float value_at(const std::vector<std::byte>& payload, size_t i) {
    uint32_t bits = 0;
    for (size_t byte = 0; byte < kBytes; ++byte) {
      bits |= std::to_integer<uint32_t>(payload[i * kBytes + byte]) << 8 * (byte + 4 - kBytes);
    }
    return std::bit_cast<float>(kIsFp16 ? fp16_to_float_bits(static_cast<uint16_t>(bits >> 16)) : bits);
  }

  void put_bits(std::vector<std::byte>& payload, size_t i, uint32_t bits) {
    if (kIsFp16) bits = uint32_t{fp16_of(bits)} << 16;
    for (size_t byte = 0; byte < kBytes; ++byte) {
      payload[i * kBytes + byte] = static_cast<std::byte>(bits >> 8 * (byte + 4 - kBytes));
    }
  }

  DenseCodec<Element> codec_;
};

struct ElementName {
  template <class Element>
  static std::string GetName(int) {
    return std::string(codec_name(Element::kKind));
  }
};
using Elements = testing::Types<Fp32Element, Bf16Element, Fp16Element>;
TYPED_TEST_SUITE(Dense, Elements, ElementName);

TYPED_TEST(Dense, PayloadIsLittleEndianValuesInOrder) {
  const std::vector<std::byte> payload = this->payload_of({1.0f, -2.5f, 0.0f});
  EXPECT_EQ(payload.size(), 3 * TestFixture::kBytes);
  EXPECT_EQ(this->value_at(payload, 0), 1.0f);
  EXPECT_EQ(this->value_at(payload, 1), -2.5f);
  EXPECT_EQ(this->value_at(payload, 2), 0.0f);
}

// The damage test: of all single-bit flips exactly those that make a value non-finite are refused.
TYPED_TEST(Dense, CheckFindsEveryFlipThatMakesANonfiniteValue) {
  TestRng rng(draw_rng_seed());
  std::vector<float> x = hostile_vector(rng, 50);
  x[7] = 1.5f;  // one flip away from an infinity's exponent
  x[49] = -1.5f;
  const std::vector<std::byte> good = this->payload_of(x);
  size_t refused = 0;
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::vector<std::byte> damaged = good;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const bool finite = std::isfinite(this->value_at(damaged, bit / 8 / TestFixture::kBytes));
    EXPECT_EQ(this->codec_.check(damaged, 50), finite ? PayloadStatus::kOk : PayloadStatus::kNonFinite) << bit;
    refused += !finite;
  }
  EXPECT_GE(refused, 2u);
}

TYPED_TEST(Dense, CheckRefusesEveryNonfiniteAtEveryPlace) {
  const std::vector<std::byte> good = this->payload_of(std::vector<float>(37, 0.5f));
  for (size_t at = 0; at < 37; ++at) {
    for (uint32_t bits : {0x7F800000u, 0xFF800000u, 0x7F810000u, 0x7FC00000u, 0xFFFF0000u}) {
      std::vector<std::byte> sick = good;
      this->put_bits(sick, at, bits);
      EXPECT_EQ(this->codec_.check(sick, 37), PayloadStatus::kNonFinite) << at;
    }
  }
}

TYPED_TEST(Dense, ADifferenceBeyondFloatLeavesTheExchange) {
  const std::vector<std::byte> high = this->payload_of({0.0f, FLT_MAX});
  const std::vector<std::byte> low = this->payload_of({0.0f, -FLT_MAX});
  PairStats stats;
  if (TestFixture::kIsFp16) {  // no two of its values are so far apart
    EXPECT_EQ(this->codec_.pair(high, low, 2, &stats), PairStatus::kOk);
    EXPECT_EQ(stats.max_abs_difference, 131008);
    return;
  }
  EXPECT_EQ(this->codec_.pair(high, low, 2, &stats), PairStatus::kLeftOut);
  EXPECT_EQ(this->codec_.pair(low, high, 2, &stats), PairStatus::kLeftOut);
  EXPECT_EQ(this->codec_.pair(high, this->payload_of({1.0f, 0.0f}), 2, &stats), PairStatus::kOk);
}

// Beyond 65504 two agents do not meet, but nobody becomes infinite and not a bit of the sum is lost.
TEST(DenseFp16, WhatIsTooLargeKeepsItsExcessAndTheSumStays) {
  const Fp16Codec codec;
  std::vector<float> a = {262144, -1048576, 100000, 3}, b = {65504, 524288, 1024, 1};
  const double sums[] = {262144.0 + 65504, -1048576.0 + 524288, 100000.0 + 1024, 4};
  for (int round = 0; round < 50; ++round) {
    std::vector<std::byte> own(8), peer(8);
    ASSERT_TRUE(codec.encode({a.data(), 4, MemorySpace::kHost}, {}, own));
    ASSERT_TRUE(codec.encode({b.data(), 4, MemorySpace::kHost}, {}, peer));
    PairStats stats;
    ASSERT_EQ(codec.pair(own, peer, 4, &stats), PairStatus::kOk);
    codec.apply(0.5f, own, peer, {a.data(), 4, MemorySpace::kHost});
    codec.apply(0.5f, peer, own, {b.data(), 4, MemorySpace::kHost});
    for (size_t i = 0; i < 4; ++i) ASSERT_EQ(double{a[i]} + b[i], sums[i]) << i;
  }
  EXPECT_EQ(a[0], 262144) << "both beyond it: no difference";
  EXPECT_NEAR(a[2], b[2], 32) << "the mean is within it, where its steps are 32";
  EXPECT_EQ(a[3], 2);
}

TYPED_TEST(Dense, LearnsNothing) {
  EXPECT_EQ(this->codec_.make_memory(10), nullptr);
  EXPECT_EQ(this->codec_.learnable_bytes(1000), 0u);
}

}  // namespace
}  // namespace starling
