// What the conformance suite cannot know of topk with coded indices: bytes and damage.
#include "compression/update_sparse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/rice.h"
#include "tests/kernels/inputs.h"

namespace starling {
namespace {

using Payload = std::vector<std::byte>;
constexpr UpdateRole kContribution = UpdateRole::kContribution, kEntry = UpdateRole::kEntry;
constexpr size_t kLarge = 200'000;

Payload encode(const UpdateCodec& codec, UpdateRole role, const std::vector<float>& x, const UpdateSeeds& seeds = {}) {
  Payload out(codec.bytes_max(role, x.size()));
  const std::optional<size_t> bytes = codec.encode(role, x, seeds, out);
  EXPECT_TRUE(bytes.has_value());
  out.resize(bytes.value_or(0));
  EXPECT_EQ(codec.check(role, out, x.size()), UpdateStatus::kOk);
  return out;
}

void set_word(Payload& payload, size_t i, uint32_t value) { std::memcpy(payload.data() + 4 * i, &value, sizeof value); }
uint32_t word(const Payload& payload, size_t i) {
  uint32_t value;
  std::memcpy(&value, payload.data() + 4 * i, sizeof value);
  return value;
}

TEST(UpdateSparse, LargeSlicesHaveCodedIndicesAndTheSameElements) {
  TestRng rng(draw_rng_seed());
  const std::vector<float> x = normal_vector(rng, kLarge, 1.0f);
  const auto codec = make_update_codec({.kind = UpdateKind::kTopk});
  const Payload payload = encode(*codec, kContribution, x);
  // 2000 elements at 1 %: 4 bytes of value and some 8.1 bits of index each.
  EXPECT_NEAR(static_cast<double>(payload.size()), 12 + 2000 * (4 + 8.11 / 8), 60);
  const UpdateSupport support = codec->support(payload);
  ASSERT_EQ(support.indices.size(), 2000u);
  std::vector<float> magnitudes;
  for (const float value : x) magnitudes.push_back(std::fabs(value));
  std::nth_element(magnitudes.begin(), magnitudes.begin() + 1999, magnitudes.end(), std::greater<>());
  std::vector<float> values(kLarge);
  codec->decode(payload, values);
  for (size_t i = 0; i < kLarge; ++i) ASSERT_EQ(values[i], std::fabs(x[i]) >= magnitudes[1999] ? x[i] : 0) << i;
}

TEST(UpdateSparse, BitsOfAnElementSentAreThoseOfTheReadme) {
  TestRng rng(draw_rng_seed());
  const std::vector<float> x = normal_vector(rng, kLarge, 1.0f);
  const auto bits = [&](UpdateKind kind) {
    return 8 * static_cast<double>(encode(*make_update_codec({.kind = kind}), kContribution, x).size()) / 2000;
  };
  EXPECT_NEAR(bits(UpdateKind::kTopk), 40.1, 0.3);
  EXPECT_NEAR(bits(UpdateKind::kTopkBf16), 24.1, 0.3);
  EXPECT_NEAR(bits(UpdateKind::kTopkInt8), 16.2, 0.3);
}

TEST(UpdateSparse, DamagedCodedPayloadsAreRefusedOrLegal) {
  TestRng rng(draw_rng_seed());
  for (const UpdateKind kind : {UpdateKind::kTopk, UpdateKind::kTopkInt8}) {
    const auto codec = make_update_codec({.kind = kind, .density = 0.001});
    const Payload good = encode(*codec, kContribution, normal_vector(rng, kLarge, 1.0f));
    for (size_t size = 0; size < good.size(); ++size) {
      const UpdateStatus status = codec->check(kContribution, Bytes(good).first(size), kLarge);
      EXPECT_EQ(status, UpdateStatus::kWrongSize) << update_name(kind) << ", " << size;
    }
    std::vector<float> target(kLarge);
    for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
      Payload damaged = good;
      damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      if (codec->check(kContribution, damaged, kLarge) != UpdateStatus::kOk) continue;
      codec->add(1e-30f, damaged, {}, target);
      ASSERT_TRUE(std::isfinite(codec->norm(damaged))) << bit;
    }
    for (const uint32_t wrong : {0u, 1u, 7u, 31u, 32u, 200u, 0xFFFFFFFFu}) {  // bits of Rice
      Payload damaged = good;
      if (word(damaged, 1) == wrong) continue;
      set_word(damaged, 1, wrong);
      EXPECT_EQ(codec->check(kContribution, damaged, kLarge), UpdateStatus::kWrongSize) << wrong;
    }
    for (const uint32_t count : {0u, 1u, 199u, 201u, (1u << 30) - 1}) {
      Payload damaged = good;
      set_word(damaged, 0, (word(good, 0) & 3u << 30) | count);
      EXPECT_NE(codec->check(kContribution, damaged, kLarge), UpdateStatus::kOk) << count;
    }
    for (const uint32_t format : {0u, 2u, 3u}) {  // 2 is retired
      Payload damaged = good;
      set_word(damaged, 0, (word(good, 0) & ~(3u << 30)) | format << 30);
      EXPECT_EQ(codec->check(kContribution, damaged, kLarge), UpdateStatus::kWrongSize) << format;
    }
  }
}

// One choice of elements has one form: how many low bits the indices have follows from the settings.
TEST(UpdateSparse, IndicesInOtherBitsThanTheSettingsSayAreRefused) {
  TestRng rng(draw_rng_seed());
  const std::vector<float> x = normal_vector(rng, kLarge, 1.0f);
  const auto codec = make_update_codec({.kind = UpdateKind::kTopk});
  const Payload good = encode(*codec, kContribution, x);
  const std::vector<uint32_t> indices = codec->support(good).indices;
  const uint32_t usual = word(good, 1);
  for (const uint32_t bits : {usual - 1, usual, usual + 1}) {
    Payload other(12 + rice_bytes_max(indices.size(), kLarge, bits));
    const size_t unary = rice_encode(indices.data(), indices.size(), bits, other.data() + 12);
    other.resize(12 + rice_low_bytes(indices.size(), bits) + unary);
    other.insert(other.end(), good.end() - static_cast<ptrdiff_t>(4 * indices.size()), good.end());
    set_word(other, 0, word(good, 0));
    set_word(other, 1, bits);
    set_word(other, 2, static_cast<uint32_t>(unary));
    ASSERT_LE(other.size(), codec->bytes_max(kEntry, kLarge));
    EXPECT_EQ(codec->check(kContribution, other, kLarge) == UpdateStatus::kOk, bits == usual) << bits;
  }
}

TEST(UpdateSparse, Int8ValuesAreAddedAsTheyAreRead) {
  TestRng rng(draw_rng_seed());
  constexpr size_t kCount = 1700;  // three scales and a part
  std::vector<float> x = normal_vector(rng, kCount, 1.0f), sum = normal_vector(rng, kCount, 1.0f), values(kCount);
  std::vector<float> expected(kCount);
  for (size_t i = 0; i < kCount; ++i) x[i] *= static_cast<float>(1 + i / 512);
  std::vector<std::byte> bytes(Int8Values::bytes(kCount));
  ASSERT_TRUE(Int8Values::write(bytes.data(), kCount, 0, x.data(), kCount, 1));
  Int8Values::read(bytes.data(), kCount, 0, kCount, values.data());
  const std::vector<LevelTerm> terms(2, Int8Values::term(0.3f, bytes.data(), kCount));
  levels_merge(Int8Values::kCodes, Int8Values::kBlock, terms, sum.data(), kCount);
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(values[i], x[i], 0.05f * static_cast<float>(1 + i / 512)) << i;
    const volatile float product = 0.3f * values[i];
    expected[i] = product + product;
  }
  EXPECT_EQ(sum, expected);
}

TEST(UpdateSparse, Int8ScalesThatAreNoneAreRefused) {
  const auto codec = make_update_codec({.kind = UpdateKind::kTopkInt8, .density = 1});
  const Payload good = encode(*codec, kContribution, std::vector<float>(700, 1.0f));
  constexpr size_t kScales = 4 + 4 * 700;  // behind the indices
  for (const float bad : {NAN, INFINITY, 1e38f, -1.0f}) {
    Payload damaged = good;
    std::memcpy(damaged.data() + kScales + 4, &bad, sizeof bad);  // of the second block
    EXPECT_EQ(codec->check(kContribution, damaged, 700), UpdateStatus::kNonFinite) << bad;
  }
  Payload damaged = good;
  damaged.back() = std::byte{255};
  EXPECT_EQ(codec->check(kContribution, damaged, 700), UpdateStatus::kNonFinite);
}

}  // namespace
}  // namespace starling
