// What the conformance suite cannot know: how scales are chosen, how payloads lie in bytes, the damage to them, and
// how signs are counted.
#include "compression/update_levels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/vector_ops.h"
#include "tests/kernels/inputs.h"

namespace starling {
namespace {

using Payload = std::vector<std::byte>;
constexpr UpdateRole kContribution = UpdateRole::kContribution, kEntry = UpdateRole::kEntry;
constexpr UpdateKind kKinds[] = {UpdateKind::kInt8, UpdateKind::kInt4, UpdateKind::kSign, UpdateKind::kSignEf,
                                 UpdateKind::kTernary};

Payload encode(const UpdateCodec& codec, UpdateRole role, const std::vector<float>& x, uint64_t rng_seed = 1) {
  Payload out(codec.bytes_max(role, x.size()));
  EXPECT_EQ(codec.encode(role, x, {.own = rng_seed}, out), out.size());
  return out;
}

uint32_t word(const Payload& payload, size_t at) {
  uint32_t value;
  std::memcpy(&value, payload.data() + at, sizeof value);
  return value;
}

float scale_at(const Payload& payload, size_t block) { return std::bit_cast<float>(word(payload, 8 + 4 * block)); }

TEST(UpdateLevels, APayloadIsFormatScalesThenCodes) {
  const auto int8 = make_update_codec({.kind = UpdateKind::kInt8});
  const Payload bytes = encode(*int8, kContribution, {127.0f, -127.0f, 0.0f, 5.0f, -64.0f});
  EXPECT_EQ(word(bytes, 0), 8u | 127u << 8);
  EXPECT_EQ(word(bytes, 4), 5u);
  EXPECT_EQ(scale_at(bytes, 0), 1.0f);
  EXPECT_EQ(Payload(bytes.begin() + 12, bytes.end()),
            (Payload{std::byte{254}, std::byte{0}, std::byte{127}, std::byte{132}, std::byte{63}}));
  const auto sign = make_update_codec({.kind = UpdateKind::kSignEf});
  EXPECT_EQ(word(encode(*sign, kContribution, {1.0f, -3.0f}), 0), 1u | 1u << 8);
  EXPECT_EQ(word(encode(*sign, kEntry, {1.0f, -3.0f}), 0), 8u | 127u << 8);
}

TEST(UpdateLevels, BitsOfAnElementAreThoseOfTheReadme) {
  const auto bits = [](UpdateKind kind, UpdateRole role) {
    const size_t count = 1 << 20;
    const auto codec = make_update_codec({.kind = kind});
    return 8 * static_cast<double>(codec->bytes_max(role, count)) / static_cast<double>(count);
  };
  EXPECT_NEAR(bits(UpdateKind::kInt8, kContribution), 8.0625, 1e-4);
  EXPECT_NEAR(bits(UpdateKind::kInt4, kContribution), 4.25, 1e-4);
  EXPECT_NEAR(bits(UpdateKind::kInt4, kEntry), 4.25, 1e-4);
  EXPECT_NEAR(bits(UpdateKind::kTernary, kContribution), 2.0625, 1e-4);
  EXPECT_NEAR(bits(UpdateKind::kTernary, kEntry), 8.0625, 1e-4);
  EXPECT_NEAR(bits(UpdateKind::kSignEf, kContribution), 1.0625, 1e-4);
  EXPECT_NEAR(bits(UpdateKind::kSign, kContribution), 1, 2e-4);
  EXPECT_NEAR(bits(UpdateKind::kSign, kEntry), 1, 2e-4);
}

// Each against its formula in double, over the second block of a vector.
TEST(UpdateLevels, ScalesFollowTheFormulas) {
  TestRng rng(draw_rng_seed());
  const std::vector<float> x = normal_vector(rng, 1000, 2.0f);
  const auto expect = [&](UpdateKind kind, size_t block, double expected) {
    const auto codec = make_update_codec({.kind = kind});
    EXPECT_NEAR(scale_at(encode(*codec, kContribution, x), block), expected, 1e-6 * expected) << update_name(kind);
  };
  double largest = 0, squares = 0, sum = 0, all = 0, of_128 = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double magnitude = std::fabs(static_cast<double>(x[i]));
    all += magnitude;
    if (i >= 128 && i < 256) of_128 = std::max(of_128, magnitude);
    if (i < 512) continue;
    largest = std::max(largest, magnitude);
    squares += magnitude * magnitude;
    sum += magnitude;
  }
  const double sigma = std::sqrt(squares / 488);
  EXPECT_LT(2.5 * sigma, largest) << "nothing is clipped";
  expect(UpdateKind::kInt8, 1, largest / 127);
  expect(UpdateKind::kInt4, 1, of_128 / 7);
  expect(UpdateKind::kTernary, 1, 2.5 * sigma);
  expect(UpdateKind::kSignEf, 1, sum / 488);
  expect(UpdateKind::kSign, 0, all / 1000);
  const std::vector<float> even(40, -0.5f);  // where nothing is beyond 2.5 sigma the largest is the scale
  EXPECT_EQ(scale_at(encode(*make_update_codec({.kind = UpdateKind::kTernary}), kContribution, even), 0), 0.5f);
}

// Members of any age judge alike: the bits of the norm are those of the decoded values, added up by pieces of 2,048.
TEST(UpdateLevels, TheNormIsThatOfTheDecodedBitByBit) {
  TestRng rng(draw_rng_seed());
  for (const UpdateKind kind : kKinds) {
    const auto codec = make_update_codec({.kind = kind});
    for (const UpdateRole role : {kContribution, kEntry}) {
      for (const size_t count : {1, 17, 512, 2047, 2048, 2049, 4096, 6144, 8191, 20001}) {
        const Payload bytes = encode(*codec, role, normal_vector(rng, count, 3.0f), rng());
        std::vector<float> values(count);
        codec->decode(bytes, values);
        double squares = 0;
        for (size_t at = 0; at < count; at += kUpdatePiece) {
          squares += squared_norm(values.data() + at, std::min(kUpdatePiece, count - at));
        }
        EXPECT_EQ(codec->norm(bytes), std::sqrt(squares)) << update_name(kind) << ", " << count;
      }
    }
  }
}

TEST(UpdateLevels, WhatIsTooLargeIsClampedAndWhatIsTooSmallIsZero) {
  for (const UpdateKind kind : kKinds) {
    const auto codec = make_update_codec({.kind = kind});
    std::vector<float> values(3);
    for (const float size : {FLT_MAX, 1e-31f, FLT_TRUE_MIN}) {
      const Payload bytes = encode(*codec, kContribution, {size, -size, size});
      EXPECT_EQ(codec->check(kContribution, bytes, 3), UpdateStatus::kOk) << update_name(kind);
      codec->decode(bytes, values);
      for (const float value : values) {
        EXPECT_TRUE(std::isfinite(value));
        EXPECT_EQ(value != 0, size > 1) << update_name(kind) << " of " << size;
      }
    }
  }
}

TEST(UpdateLevels, ScalesThatAreNoneAreRefused) {
  for (const UpdateKind kind : kKinds) {
    const auto codec = make_update_codec({.kind = kind});
    for (const UpdateRole role : {kContribution, kEntry}) {
      const Payload good = encode(*codec, role, std::vector<float>(1200, 1.0f));
      const size_t blocks = kind == UpdateKind::kSign ? 1 : 3;
      for (size_t block = 0; block < blocks; ++block) {
        for (const float bad : {NAN, -NAN, INFINITY, -INFINITY, 1e38f, 2e36f, -1.0f, -0.0f}) {
          Payload damaged = good;
          std::memcpy(damaged.data() + 8 + 4 * block, &bad, sizeof bad);
          EXPECT_EQ(codec->check(role, damaged, 1200), UpdateStatus::kNonFinite) << update_name(kind) << " of " << bad;
        }
        Payload fine = good;
        std::memcpy(fine.data() + 8 + 4 * block, &kUpdateScaleMax, sizeof kUpdateScaleMax);
        EXPECT_EQ(codec->check(role, fine, 1200), UpdateStatus::kOk);
      }
    }
  }
}

TEST(UpdateLevels, CodesAndHeadersThatStandForNothingAreRefused) {
  for (const UpdateKind kind : kKinds) {
    const auto codec = make_update_codec({.kind = kind});
    const Payload good = encode(*codec, kContribution, std::vector<float>(70, 1.0f));
    for (const size_t at : {size_t{0}, size_t{1}, size_t{2}, size_t{4}, size_t{7}}) {
      Payload damaged = good;
      damaged[at] ^= std::byte{0x10};
      EXPECT_EQ(codec->check(kContribution, damaged, 70), UpdateStatus::kWrongSize) << update_name(kind) << ", " << at;
    }
    EXPECT_NE(codec->check(kContribution, good, 69), UpdateStatus::kOk) << "the same bytes for fewer elements";
    EXPECT_NE(codec->check(kContribution, good, 71), UpdateStatus::kOk);
    Payload damaged = good;
    damaged.back() = std::byte{0xFF};  // beyond 2 L, or in bits where no element is
    EXPECT_EQ(codec->check(kContribution, damaged, 70), UpdateStatus::kBadLevel) << update_name(kind);
  }
}

// Payloads of one format are added together, those of others one by one: the bits are the same.
TEST(UpdateLevels, AMergeReadsEachPayloadInItsOwnFormat) {
  TestRng rng(draw_rng_seed());
  constexpr size_t kCount = 5001;
  for (const UpdateKind kind : kKinds) {
    if (kind == UpdateKind::kSign) continue;  // a vote
    const auto codec = make_update_codec({.kind = kind});
    std::vector<Payload> payloads;
    for (const UpdateRole role : {kContribution, kContribution, kEntry, kContribution}) {
      payloads.push_back(encode(*codec, role, normal_vector(rng, kCount, 1.0f), rng()));
    }
    std::vector<UpdateTerm> terms;
    std::vector<float> sum(kCount, NAN), expected(kCount), values(kCount);
    for (const Payload& payload : payloads) {
      terms.push_back({codec.get(), 0.3f, payload});
      codec->decode(payload, values);
      axpy(0.3f, values.data(), expected.data(), kCount);
    }
    codec->merge(terms, sum);
    EXPECT_EQ(sum, expected) << update_name(kind);
    codec->merge({}, sum);
    EXPECT_EQ(sum, std::vector<float>(kCount)) << "of no payloads";
  }
}

// ---- the vote ----

class Vote : public testing::Test {
 protected:
  std::vector<float> merge(const std::vector<std::vector<float>>& members) {
    std::vector<Payload> payloads;
    std::vector<UpdateTerm> terms;
    for (const std::vector<float>& x : members) payloads.push_back(encode(*codec_, kContribution, x));
    for (const Payload& payload : payloads) terms.push_back({codec_.get(), 1.0f / 7, payload});
    std::vector<float> sum(members[0].size(), NAN);
    codec_->merge(terms, sum);
    return sum;
  }
  std::vector<float> decode(const Payload& payload, size_t count) const {
    std::vector<float> values(count);
    codec_->decode(payload, values);
    return values;
  }
  const std::unique_ptr<UpdateCodec> codec_ = make_update_codec({.kind = UpdateKind::kSign});
};

TEST_F(Vote, TheMajorityDecidesAndTheMedianScaleIsTheStep) {
  // Scales 2, 3 and 1000: neither the largest nor the sum moves the step.
  const std::vector<float> sum = merge({{2, 2, -2, -2}, {3, -3, 3, -3}, {-1000, 1000, 1000, -1000}});
  EXPECT_EQ(sum, (std::vector<float>{3, 3, 3, -3}));
  const Payload entry = encode(*codec_, kEntry, sum);
  EXPECT_EQ(codec_->check(kEntry, entry, 4), UpdateStatus::kOk);
  EXPECT_EQ(decode(entry, 4), sum);
}

TEST_F(Vote, TiesGoEitherWayAndDoNotShrinkTheStep) {
  std::vector<float> up(4000, 1.0f), down(4000, -1.0f);
  up[0] = down[0] = 1;
  const std::vector<float> sum = merge({up, down});
  EXPECT_EQ(sum[0], 1);
  EXPECT_EQ(std::count(sum.begin(), sum.end(), 0.0f), 3999);
  const std::vector<float> values = decode(encode(*codec_, kEntry, sum), 4000);
  const auto ups = std::count(values.begin(), values.end(), 1.0f);
  const auto downs = std::count(values.begin(), values.end(), -1.0f);
  EXPECT_EQ(ups + downs, 4000);
  EXPECT_NEAR(static_cast<double>(ups), 2000, 6 * std::sqrt(1000));
}

TEST_F(Vote, APayloadOfAnotherKindVotesByItsSigns) {
  const auto exact = make_update_codec({});
  const Payload a = encode(*codec_, kContribution, {2, 2, -2}), b = encode(*exact, kContribution, {-1e30f, 0, -1e-30f});
  const Payload c = encode(*codec_, kContribution, {-4, -4, 4});
  const UpdateTerm terms[] = {{codec_.get(), 0.1f, a}, {exact.get(), 0.8f, b}, {codec_.get(), 0.1f, c}};
  std::vector<float> sum(3);
  codec_->merge(terms, sum);
  EXPECT_EQ(sum, (std::vector<float>{-2, 0, -2}));
}

// Sums are made piece by piece: every element has the votes of its own place, whatever kinds vote.
TEST_F(Vote, EveryElementOfALongSliceHasItsOwnVotes) {
  TestRng rng(draw_rng_seed());
  constexpr size_t kCount = 5001;
  const auto exact = make_update_codec({}), top = make_update_codec({.kind = UpdateKind::kTopk, .density = 0.5});
  std::vector<std::vector<float>> values;
  std::vector<Payload> payloads;
  std::vector<UpdateTerm> terms;
  for (const UpdateCodec* codec : {codec_.get(), exact.get(), codec_.get(), top.get(), codec_.get()}) {
    Payload payload(codec->bytes_max(kContribution, kCount));
    payload.resize(codec->encode(kContribution, normal_vector(rng, kCount, 1.0f), {}, payload).value());
    codec->decode(payload, values.emplace_back(kCount));
    payloads.push_back(payload);
  }
  const UpdateCodec* const codecs[] = {codec_.get(), exact.get(), codec_.get(), top.get(), codec_.get()};
  for (size_t t = 0; t < payloads.size(); ++t) terms.push_back({codecs[t], 0.2f, payloads[t]});
  std::vector<float> sum(kCount, NAN);
  codec_->merge(terms, sum);
  for (size_t i = 0; i < kCount; ++i) {
    int votes = 0;
    for (const std::vector<float>& member : values) votes += (member[i] > 0) - (member[i] < 0);
    ASSERT_EQ((sum[i] > 0) - (sum[i] < 0), (votes > 0) - (votes < 0)) << i;
  }
}

// Blind adversaries, who send the opposite of what they found: fewer than half of them change nothing.
TEST_F(Vote, AMinorityThatInvertsItsSignsLoses) {
  TestRng rng(draw_rng_seed());
  const std::vector<float> truth = normal_vector(rng, 500, 1.0f);
  std::vector<float> inverted = truth;
  for (float& value : inverted) value *= -1e6f;
  const std::vector<float> sum = merge({truth, inverted, truth, inverted, truth});
  for (size_t i = 0; i < truth.size(); ++i) EXPECT_EQ(sum[i] > 0, truth[i] > 0) << i;
}

}  // namespace
}  // namespace starling
