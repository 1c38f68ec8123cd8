#include "compression/fp32.h"

#include <gtest/gtest.h>

#include <cstring>

#include "compression/fp32_format.h"
#include "tests/kernels/inputs.h"

namespace starling {
namespace {

using fp32_format::kBytesPerElement;

std::vector<std::byte> payload_of(const std::vector<float>& x) {
  std::vector<std::byte> payload(fp32_format::payload_bytes(x.size()));
  EXPECT_TRUE(Fp32Codec().encode({x.data(), x.size(), MemorySpace::kHost}, {}, payload));
  return payload;
}

// Value i of a payload, put together byte by byte: the wire is little-endian.
float value_at(const std::vector<std::byte>& payload, size_t i) {
  uint32_t bits = 0;
  for (size_t byte = 0; byte < kBytesPerElement; ++byte) {
    const auto value = std::to_integer<uint32_t>(payload[i * kBytesPerElement + byte]);
    bits |= value << 8 * (byte + 4 - kBytesPerElement);
  }
  return std::bit_cast<float>(bits);
}

void put_bits(std::vector<std::byte>& payload, size_t i, uint32_t bits) {
  for (size_t byte = 0; byte < kBytesPerElement; ++byte) {
    payload[i * kBytesPerElement + byte] = static_cast<std::byte>(bits >> 8 * (byte + 4 - kBytesPerElement));
  }
}

TEST(Fp32, PayloadIsLittleEndianValuesInOrder) {
  const std::vector<std::byte> payload = payload_of({1.0f, -2.5f, 0.0f});
  EXPECT_EQ(payload.size(), 3 * kBytesPerElement);
  EXPECT_EQ(value_at(payload, 0), 1.0f);
  EXPECT_EQ(value_at(payload, 1), -2.5f);
  EXPECT_EQ(value_at(payload, 2), 0.0f);
}

// The damage test: of all single-bit flips exactly those that make a value non-finite are refused.
TEST(Fp32, CheckFindsEveryFlipThatMakesANonfiniteValue) {
  TestRng rng(draw_rng_seed());
  std::vector<float> x = hostile_vector(rng, 50);
  x[7] = 1.5f;  // one flip away from an infinity's exponent
  x[49] = -1.5f;
  const std::vector<std::byte> good = payload_of(x);
  size_t refused = 0;
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::vector<std::byte> damaged = good;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const bool finite = std::isfinite(value_at(damaged, bit / 8 / kBytesPerElement));
    EXPECT_EQ(Fp32Codec().check(damaged, 50), finite ? PayloadStatus::kOk : PayloadStatus::kNonFinite) << bit;
    refused += !finite;
  }
  EXPECT_GE(refused, 2u);
}

TEST(Fp32, CheckRefusesEveryNonfiniteAtEveryPlace) {
  const std::vector<std::byte> good = payload_of(std::vector<float>(37, 0.5f));
  for (size_t at = 0; at < 37; ++at) {
    for (uint32_t bits : {0x7F800000u, 0xFF800000u, 0x7F810000u, 0x7FC00000u, 0xFFFF0000u}) {
      std::vector<std::byte> sick = good;
      put_bits(sick, at, bits);
      EXPECT_EQ(Fp32Codec().check(sick, 37), PayloadStatus::kNonFinite) << at;
    }
  }
}

TEST(Fp32, ADifferenceBeyondFloatLeavesTheExchange) {
  const std::vector<std::byte> high = payload_of({0.0f, FLT_MAX});
  const std::vector<std::byte> low = payload_of({0.0f, -FLT_MAX});
  PairStats stats;
  EXPECT_EQ(Fp32Codec().pair(high, low, 2, &stats), PairStatus::kWrapped);
  EXPECT_EQ(Fp32Codec().pair(low, high, 2, &stats), PairStatus::kWrapped);
  EXPECT_EQ(Fp32Codec().pair(high, payload_of({1.0f, 0.0f}), 2, &stats), PairStatus::kOk);
}

TEST(Fp32, LearnsNothing) {
  BlockState state;
  const std::vector<std::byte> payload = payload_of({1.0f});
  Fp32Codec().learn(PairStatus::kWrapped, {}, payload, payload, &state);
  EXPECT_EQ(state.step_exponent, BlockState::kUnset);
}

}  // namespace
}  // namespace starling
