// What the conformance suite cannot know: which elements topk sends, how they lie in bytes, and the damage to them.
#include "compression/update_topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/kernels/inputs.h"

namespace starling {
namespace {

using Payload = std::vector<std::byte>;
constexpr UpdateRole kContribution = UpdateRole::kContribution, kEntry = UpdateRole::kEntry;

Payload encode(const UpdateCodec& codec, UpdateRole role, const std::vector<float>& x) {
  Payload out(codec.bytes_max(role, x.size()));
  const std::optional<size_t> bytes = codec.encode(role, x, {}, out);
  EXPECT_TRUE(bytes.has_value());
  out.resize(bytes.value_or(0));
  return out;
}

Payload raw(std::initializer_list<uint32_t> words) {
  Payload bytes;
  for (uint32_t word : words) {
    for (int byte = 0; byte < 4; ++byte) bytes.push_back(static_cast<std::byte>(word >> 8 * byte));
  }
  return bytes;
}

const uint32_t kOne = std::bit_cast<uint32_t>(1.0f);

TEST(UpdateTopk, APayloadIsIndicesThenValues) {
  const std::vector<float> x = {0.5f, -3.0f, 0.0f, 2.0f, 1.0f, -0.25f};
  const auto fp32 = make_update_codec({.kind = UpdateKind::kTopk, .density = 0.5});
  EXPECT_EQ(encode(*fp32, kContribution, x), raw({3, 1, 3, 4, std::bit_cast<uint32_t>(-3.0f), 0x40000000, kOne}));
  const auto bf16 = make_update_codec({.kind = UpdateKind::kTopkBf16, .density = 0.5});
  Payload expected = raw({3, 1, 3, 4, 0x4000C040});  // -3 and 2
  expected.insert(expected.end(), {std::byte{0x80}, std::byte{0x3F}});
  EXPECT_EQ(encode(*bf16, kContribution, x), expected);
}

TEST(UpdateTopk, ZerosAreNeverSent) {
  const auto codec = make_update_codec({.kind = UpdateKind::kTopk, .density = 1});
  EXPECT_EQ(encode(*codec, kContribution, {0.0f, -0.0f, 1.0f}), raw({1, 2, kOne}));
  EXPECT_EQ(encode(*codec, kContribution, std::vector<float>(40)), raw({0}));
}

TEST(UpdateTopk, SizesFollowFromTheSettings) {
  const auto bytes = [](double density, uint32_t reply, UpdateRole role, size_t count) {
    return make_update_codec({.kind = UpdateKind::kTopk, .density = density, .reply = reply})->bytes_max(role, count);
  };
  EXPECT_EQ(bytes(0.01, 2, kContribution, 50'000), 4 + 500u * 8);
  EXPECT_EQ(bytes(0.01, 2, kEntry, 50'000), 4 + 1000u * 8);
  EXPECT_EQ(bytes(0.01, 2, kContribution, 50'001), 4 + 501u * 8);
  EXPECT_EQ(bytes(0.01, 1, kEntry, 50'000), 4 + 500u * 8);
  EXPECT_EQ(bytes(0.01, 2, kContribution, 1), 4 + 8u);
  EXPECT_EQ(bytes(0.01, 2, kEntry, 1), 4 + 8u);
  EXPECT_EQ(bytes(1.0, 4'000'000'000u, kEntry, 7), 4 + 7u * 8);
  EXPECT_EQ(bytes(0.01, 2, kEntry, 0), 4u);
}

// Against a sum and a sort in double.
TEST(UpdateTopk, AnEntryHoldsTheLargestOfTheSum) {
  TestRng rng(draw_rng_seed());
  const size_t count = 5000, kept = 100;
  const auto codec = make_update_codec({.kind = UpdateKind::kTopk, .density = 0.01, .reply = 2});
  std::vector<Payload> payloads;
  std::vector<double> exact(count);
  for (int member = 0; member < 8; ++member) {
    payloads.push_back(encode(*codec, kContribution, normal_vector(rng, count, 1.0f)));
    std::vector<float> values(count);
    codec->decode(payloads.back(), values);
    for (size_t i = 0; i < count; ++i) exact[i] += values[i] / 8.0;
  }
  std::vector<UpdateTerm> terms;
  for (const Payload& payload : payloads) terms.push_back({codec.get(), 1.0f / 8, payload});
  std::vector<float> sum(count), values(count);
  codec->merge(terms, sum);
  const Payload entry = encode(*codec, kEntry, sum);
  EXPECT_EQ(entry.size(), 4 + kept * 8);
  codec->decode(entry, values);
  std::vector<double> magnitudes(exact);
  for (double& value : magnitudes) value = std::fabs(value);
  std::nth_element(magnitudes.begin(), magnitudes.begin() + kept - 1, magnitudes.end(), std::greater<>());
  const double smallest = magnitudes[kept - 1];
  for (size_t i = 0; i < count; ++i) {
    if (std::fabs(exact[i]) > smallest * (1 + 1e-6)) {
      EXPECT_NEAR(values[i], exact[i], 1e-6) << i;
    } else if (std::fabs(exact[i]) < smallest * (1 - 1e-6)) {
      EXPECT_EQ(values[i], 0) << i;
    }
  }
}

class Damage : public testing::TestWithParam<UpdateKind> {
 protected:
  UpdateStatus check(const Payload& payload, UpdateRole role = kContribution) const {
    return codec_->check(role, payload, 100);
  }
  // A payload of these indices, each with the value 1, of which the last has these upper bits.
  Payload payload_of(std::initializer_list<uint32_t> indices, uint32_t last = 0x3F80) const {
    const bool bf16 = GetParam() == UpdateKind::kTopkBf16;
    Payload bytes = raw({static_cast<uint32_t>(indices.size())});
    const Payload index_bytes = raw(indices);
    bytes.insert(bytes.end(), index_bytes.begin(), index_bytes.end());
    for (size_t j = 0; j < indices.size(); ++j) {
      const uint32_t upper = j + 1 == indices.size() ? last : 0x3F80;
      const Payload value = raw({upper << 16});
      bytes.insert(bytes.end(), value.begin() + (bf16 ? 2 : 0), value.end());
    }
    return bytes;
  }
  const std::unique_ptr<UpdateCodec> codec_ =
      make_update_codec({.kind = GetParam(), .density = 0.04, .reply = 2});  // 4 of 100, 8 in an entry
};

TEST_P(Damage, GoodPayloadsPass) {
  EXPECT_EQ(check(payload_of({})), UpdateStatus::kOk);
  EXPECT_EQ(check(payload_of({0})), UpdateStatus::kOk);
  EXPECT_EQ(check(payload_of({0, 1, 98, 99})), UpdateStatus::kOk);
  EXPECT_EQ(check(payload_of({7}, 0xFF7F)), UpdateStatus::kOk) << "the largest negative bf16";
}

TEST_P(Damage, IndicesOutOfOrderOrRangeAreRefused) {
  EXPECT_EQ(check(payload_of({100})), UpdateStatus::kBadIndex);
  EXPECT_EQ(check(payload_of({0, 1, 2, 100})), UpdateStatus::kBadIndex);
  EXPECT_EQ(check(payload_of({0, 1, 1, 3})), UpdateStatus::kBadIndex);
  EXPECT_EQ(check(payload_of({0, 2, 1, 3})), UpdateStatus::kBadIndex);
  EXPECT_EQ(check(payload_of({0xFFFFFFFFu, 1, 2})), UpdateStatus::kBadIndex);
  EXPECT_EQ(check(payload_of({5, 0xFFFFFFFFu})), UpdateStatus::kBadIndex);
}

TEST_P(Damage, OversizedAndTruncatedPayloadsAreRefused) {
  const Payload five = payload_of({0, 1, 2, 3, 4}), eight = payload_of({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(check(five), UpdateStatus::kWrongSize);
  EXPECT_EQ(check(five, kEntry), UpdateStatus::kOk);
  EXPECT_EQ(check(eight, kEntry), UpdateStatus::kOk);
  EXPECT_EQ(check(payload_of({0, 1, 2, 3, 4, 5, 6, 7, 8}), kEntry), UpdateStatus::kWrongSize);
  const Payload good = payload_of({3, 50, 80, 99});
  for (size_t size = 1; size < good.size(); ++size) {
    EXPECT_NE(check(Payload(good.begin(), good.begin() + static_cast<ptrdiff_t>(size))), UpdateStatus::kOk) << size;
  }
  Payload longer = good, claims = payload_of({});
  longer.push_back(std::byte{0});
  EXPECT_EQ(check(longer), UpdateStatus::kWrongSize);
  for (uint32_t count : {1u, 4u, 5u, 0x2AAAAAAAu, 0xFFFFFFFFu}) {  // some wrap a 32-bit size
    std::memcpy(claims.data(), &count, sizeof count);
    EXPECT_EQ(check(claims), UpdateStatus::kWrongSize) << count;
  }
  EXPECT_EQ(check({}), UpdateStatus::kWrongSize);
}

TEST_P(Damage, NonfiniteValuesAreRefused) {
  for (uint32_t upper : {0x7F80u, 0xFF80u, 0x7FC0u, 0xFFFFu}) {
    EXPECT_EQ(check(payload_of({0}, upper)), UpdateStatus::kNonFinite) << upper;
    EXPECT_EQ(check(payload_of({4, 5, 6, 99}, upper)), UpdateStatus::kNonFinite) << upper;
  }
}

INSTANTIATE_TEST_SUITE_P(UpdateTopk, Damage, testing::Values(UpdateKind::kTopk, UpdateKind::kTopkBf16),
                         [](const auto& info) { return std::string(update_name(info.param)); });

TEST(UpdateNames, EachIsFoundByNameAndNumber) {
  for (const UpdateName& update : update_names()) {
    EXPECT_EQ(parse_update(update.name), update.kind);
    EXPECT_EQ(update_kind(static_cast<uint8_t>(update.kind)), update.kind);
    EXPECT_EQ(update_name(update.kind), update.name);
    EXPECT_EQ(make_update_codec({.kind = update.kind})->kind(), update.kind);
  }
  EXPECT_EQ(parse_update("top-k"), std::nullopt);
  for (const uint8_t number : {0, 10, 12, 13, 14, 17, 255})
    EXPECT_EQ(update_kind(number), std::nullopt) << "unused or retired";
  EXPECT_TRUE(update_choices(", ").starts_with("fp32, bf16, topk, topk_bf16, "));
}

}  // namespace
}  // namespace starling
