// What every update codec promises, whatever it sends: run on each of update_names() with densities and replies that
// differ. References are in double or by hand, never the codec itself.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "compression/update_codec.h"
#include "tests/kernels/inputs.h"

namespace starling {

inline constexpr size_t kUpdateSizes[] = {0, 1, 3, 31, 33, 1023, 1025, 5001, 66001};

struct UpdateCase {
  std::string name;
  UpdateOptions options;
};

inline std::vector<UpdateCase> every_update() {
  std::vector<UpdateCase> cases;
  for (const UpdateName& update : update_names()) {
    cases.push_back({std::string(update.name), {.kind = update.kind}});
    const bool sparse = make_update_codec({.kind = update.kind})->residual().unsent;
    if (!sparse) continue;
    cases.push_back({std::string(update.name) + "_tenth", {.kind = update.kind, .density = 0.1, .reply = 1}});
    cases.push_back({std::string(update.name) + "_all", {.kind = update.kind, .density = 1.0, .reply = 3}});
  }
  return cases;
}

class UpdateSuite : public testing::TestWithParam<UpdateCase> {
 protected:
  using Payload = std::vector<std::byte>;

  // What is left is on the elements not sent, and rounding of those that were: sums of integers stay exact.
  bool exact() const { return !codec_->residual().dropped && codec_->residual().rounding_of_largest == 0; }

  std::optional<Payload> try_encode(const std::vector<float>& x, UpdateRole role = UpdateRole::kContribution,
                                    uint64_t rng_seed = 1) const {
    Payload out(codec_->bytes_max(role, x.size()), std::byte{0xa5});  // callers do not clear theirs
    const std::optional<size_t> bytes = codec_->encode(role, x, {.own = rng_seed, .common = rng_seed}, out);
    if (!bytes) return std::nullopt;
    EXPECT_LE(*bytes, out.size());
    out.resize(std::min(*bytes, out.size()));
    return out;
  }

  Payload encode(const std::vector<float>& x, UpdateRole role = UpdateRole::kContribution,
                 uint64_t rng_seed = 1) const {
    const std::optional<Payload> payload = try_encode(x, role, rng_seed);
    EXPECT_TRUE(payload.has_value());
    const Payload bytes = payload.value_or(Payload());
    EXPECT_EQ(codec_->check(role, bytes, x.size()), UpdateStatus::kOk);
    return bytes;
  }

  std::vector<float> decode(const Payload& payload, size_t count) const {
    std::vector<float> values(count, NAN);
    codec_->decode(payload, values);
    return values;
  }

  // Which elements a payload holds.
  std::vector<bool> held(const Payload& payload, size_t count) const {
    const UpdateSupport support = codec_->support(payload);
    std::vector<bool> in(count, support.everywhere);
    for (const uint32_t index : support.indices) in.at(index) = true;
    return in;
  }

  void settle(float scale, const Payload& payload, const UpdateSupport& on, std::vector<float>& accumulator) const {
    codec_->add(-scale, payload, on, accumulator);
  }

  const std::unique_ptr<UpdateCodec> codec_ = make_update_codec(GetParam().options);
};

TEST_P(UpdateSuite, LeavesInTheAccumulatorWhatItDeclares) {
  TestRng rng(draw_rng_seed());
  const UpdateResidual residual = codec_->residual();
  if (residual.dropped) return;  // nothing
  for (size_t count : kUpdateSizes) {
    const std::vector<float> x = normal_vector(rng, count, 1.0f);
    float largest = 0;
    for (const float value : x) largest = std::max(largest, std::fabs(value));
    const Payload payload = encode(x);
    const std::vector<bool> sent = held(payload, count);
    std::vector<float> left = x;
    settle(1, payload, {}, left);
    for (size_t i = 0; i < count; ++i) {
      if (!sent[i]) {
        EXPECT_TRUE(residual.unsent);
        ASSERT_EQ(std::bit_cast<uint32_t>(left[i]), std::bit_cast<uint32_t>(x[i])) << i;
      } else {
        const float bound = residual.rounding * std::fabs(x[i]) + residual.rounding_of_largest * largest;
        ASSERT_LE(std::fabs(left[i]), bound) << i;
      }
    }
    EXPECT_TRUE(residual.unsent || std::count(sent.begin(), sent.end(), false) == 0);
  }
}

// The vectors on which a codec leaves most differ: noise, one large element among small ones, all alike.
TEST_P(UpdateSuite, LeavesNoMoreEnergyThanItDeclares) {
  TestRng rng(draw_rng_seed());
  const UpdateResidual residual = codec_->residual();
  if (residual.dropped) return;
  ASSERT_LT(residual.energy, 1);
  for (const size_t count : {size_t{130}, size_t{5000}}) {
    std::vector<float> spike(count, 0.5f);
    spike[rng() % count] = 7;
    for (const std::vector<float>& x : {normal_vector(rng, count, 1.0f), spike, std::vector<float>(count, -3.0f)}) {
      double left = 0, all = 0;
      for (int trial = 0; trial < 40; ++trial) {
        const std::vector<float> values = decode(encode(x, UpdateRole::kContribution, rng()), count);
        for (size_t i = 0; i < count; ++i) {
          left += std::pow(static_cast<double>(x[i]) - static_cast<double>(values[i]), 2);
          all += std::pow(static_cast<double>(x[i]), 2);
        }
      }
      EXPECT_LE(left, residual.energy * all) << count;
    }
  }
}

TEST_P(UpdateSuite, TheExpectationIsTheVectorWhereThatIsSaid) {
  if (!codec_->residual().unbiased) return;
  TestRng rng(draw_rng_seed());
  constexpr size_t kCount = 100, kTrials = 4000;  // of one block
  for (const float spread : {0.0f, 2.0f}) {       // of magnitudes
    std::vector<float> x = normal_vector(rng, kCount, 1.0f);
    for (float& value : x) value *= std::exp(spread * value);
    std::vector<double> off(kCount);
    double step = INFINITY;  // the smallest value that is not zero
    for (size_t trial = 0; trial < kTrials; ++trial) {
      const std::vector<float> values = decode(encode(x, UpdateRole::kContribution, rng()), kCount);
      for (size_t i = 0; i < kCount; ++i) {
        off[i] += static_cast<double>(values[i]) - static_cast<double>(x[i]);
        if (values[i] != 0) step = std::min(step, static_cast<double>(std::fabs(values[i])));
      }
    }
    for (size_t i = 0; i < kCount; ++i) {
      // The variance of a rounding to the step below or above is at most step * |x|; seven standard deviations.
      const double variance = std::min(step * std::fabs(static_cast<double>(x[i])), step * step / 4);
      ASSERT_LE(std::fabs(off[i]), 7 * std::sqrt(kTrials * variance) + 10 * step) << i << ", " << x[i];
    }
  }
}

// What one codec leaves, the next payloads carry: in the end nothing, or hardly anything, is left of a drift.
TEST_P(UpdateSuite, PayloadsInARowEmptyTheAccumulator) {
  if (codec_->residual().dropped) return;
  TestRng rng(draw_rng_seed());
  for (size_t count : kUpdateSizes) {
    const std::vector<float> drift = normal_vector(rng, count, 1.0f);
    std::vector<float> accumulator = drift;
    std::vector<double> received(count);
    const int rounds = count < 100 ? 1000 : 400;  // one element of 33 is not chosen in 400 once in 200,000 runs
    for (int round = 0; round < rounds; ++round) {
      const Payload payload = encode(accumulator, UpdateRole::kContribution, rng());
      const std::vector<float> values = decode(payload, count);
      for (size_t i = 0; i < count; ++i) received[i] += values[i];
      settle(1, payload, {}, accumulator);
    }
    double left = 0, all = 0;
    for (size_t i = 0; i < count; ++i) {
      left += std::pow(static_cast<double>(accumulator[i]), 2);
      all += std::pow(static_cast<double>(drift[i]), 2);
    }
    EXPECT_LE(left, exact() ? 0 : 0.01 * all) << count;
    for (size_t i = 0; i < count; ++i) {
      const double sent_and_left = received[i] + static_cast<double>(accumulator[i]);
      ASSERT_NEAR(sent_and_left, drift[i], exact() ? 0 : 1e-4) << i << " of " << count;
    }
  }
}

// On integers float arithmetic is exact: what was settled and what is left are what there was.
TEST_P(UpdateSuite, IntegersAreConservedExactly) {
  if (!exact()) return;
  TestRng rng(draw_rng_seed());
  for (size_t count : kUpdateSizes) {
    std::vector<float> accumulator(count);
    std::vector<int64_t> drifts(count), counted(count);
    for (int round = 0; round < 10; ++round) {
      for (size_t i = 0; i < count; ++i) {
        const int drift = static_cast<int>(rng() % 17) - 8;  // sums of ten fit the eight bits of a bf16
        accumulator[i] += static_cast<float>(drift);
        drifts[i] += drift;
      }
      const Payload payload = encode(accumulator);
      const std::vector<float> values = decode(payload, count);
      for (size_t i = 0; i < count; ++i) counted[i] += static_cast<int64_t>(values[i]);
      settle(1, payload, {}, accumulator);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(static_cast<double>(accumulator[i]), static_cast<double>(drifts[i] - counted[i])) << i;
      }
    }
  }
}

// Members with drifts of their own, an owner's merge, and settling on what the entry kept: the replica and what waits
// in the accumulators are together what all have learned.
TEST_P(UpdateSuite, ReplicaAndAccumulatorsHoldAllDrifts) {
  if (!exact()) return;  // entries are rounded too
  TestRng rng(draw_rng_seed());
  constexpr size_t kMembers = 8;  // their weight 1/8 is exact
  for (size_t count : kUpdateSizes) {
    std::vector<std::vector<float>> accumulators(kMembers, std::vector<float>(count));
    std::vector<double> drifts(count), entries(count);
    for (int round = 0; round < 4; ++round) {
      std::vector<Payload> payloads;
      std::vector<UpdateTerm> terms;
      for (std::vector<float>& accumulator : accumulators) {
        for (size_t i = 0; i < count; ++i) {
          const int drift = static_cast<int>(rng() % 7) - 3;
          accumulator[i] += static_cast<float>(drift);
          drifts[i] += drift / 8.0;
        }
        payloads.push_back(encode(accumulator));
      }
      for (const Payload& payload : payloads) terms.push_back({codec_.get(), 1.0f / kMembers, payload});
      std::vector<float> sum(count);
      codec_->merge(terms, sum);
      const Payload entry = encode(sum, UpdateRole::kEntry);
      const std::vector<float> values = decode(entry, count);
      for (size_t i = 0; i < count; ++i) entries[i] += values[i];
      for (size_t m = 0; m < kMembers; ++m) settle(1, payloads[m], codec_->support(entry), accumulators[m]);
    }
    for (size_t i = 0; i < count; ++i) {
      double waiting = 0;
      for (const std::vector<float>& accumulator : accumulators) waiting += accumulator[i] / 8.0;
      ASSERT_EQ(entries[i] + waiting, drifts[i]) << i << " of " << count;
    }
  }
}

TEST_P(UpdateSuite, AMergeIsTheWeightedSumInTheOrderGiven) {
  if (codec_->kind() == UpdateKind::kSign) return;  // a vote: update_levels_test.cpp
  TestRng rng(draw_rng_seed());
  for (size_t count : kUpdateSizes) {
    std::vector<Payload> payloads;
    std::vector<UpdateTerm> terms;
    for (int i = 0; i < 5; ++i) payloads.push_back(encode(normal_vector(rng, count, 1.0f)));
    for (const Payload& payload : payloads) {
      terms.push_back({codec_.get(), 0.1f + static_cast<float>(rng() % 100) / 100, payload});
    }
    std::vector<float> sum(count, NAN), expected(count);
    std::vector<double> exact(count), size(count);
    codec_->merge(terms, sum);
    for (size_t t = 0; t < terms.size(); ++t) {
      const std::vector<float> values = decode(payloads[t], count);
      for (size_t i = 0; i < count; ++i) {
        const volatile float product = terms[t].weight * values[i];
        expected[i] += product;
        exact[i] += static_cast<double>(terms[t].weight) * static_cast<double>(values[i]);
        size[i] += std::fabs(static_cast<double>(terms[t].weight) * static_cast<double>(values[i]));
      }
    }
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(sum[i], expected[i]) << i;
      ASSERT_NEAR(sum[i], exact[i], 1e-6 * size[i]) << i;
    }
  }
}

TEST_P(UpdateSuite, ItsTwoPartsAreTheWhole) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kUpdateSizes) {
    const std::vector<float> x = normal_vector(rng, count, 1.0f);
    for (const UpdateRole role : {UpdateRole::kContribution, UpdateRole::kEntry}) {
      const std::optional<UpdateSupport> chosen = codec_->choose(role, x, {});
      ASSERT_TRUE(chosen.has_value());
      Payload out(codec_->bytes_max(role, count));
      out.resize(codec_->encode_chosen(role, x, {}, *chosen, out).value());
      EXPECT_EQ(out, encode(x, role));
      const UpdateSupport support = codec_->support(out);
      EXPECT_EQ(support.everywhere, chosen->everywhere);
      EXPECT_EQ(support.indices, chosen->indices) << "what was chosen is what is sent";
    }
  }
}

TEST_P(UpdateSuite, SettlingTouchesTheSupportAlone) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kUpdateSizes) {
    const std::vector<float> x = normal_vector(rng, count, 1.0f);
    const Payload payload = encode(x);
    const std::vector<float> values = decode(payload, count);
    for (const UpdateName& other : update_names()) {  // at the end of a run kinds mix
      if (count > 10'000 && other.kind != codec_->kind()) continue;
      const auto entry_codec = make_update_codec({.kind = other.kind, .density = 0.3});
      const std::vector<float> sum = normal_vector(rng, count, 1.0f);
      Payload entry(entry_codec->bytes_max(UpdateRole::kEntry, count));
      const std::optional<size_t> bytes = entry_codec->encode(UpdateRole::kEntry, sum, {.own = rng()}, entry);
      ASSERT_TRUE(bytes.has_value());
      const Bytes foreign = Bytes(entry).first(*bytes);
      ASSERT_EQ(entry_codec->check(UpdateRole::kEntry, foreign, count), UpdateStatus::kOk);
      const UpdateSupport support = entry_codec->support(foreign);
      std::vector<bool> in(count, support.everywhere);
      std::vector<float> entry_values(count);
      entry_codec->decode(foreign, entry_values);
      for (const uint32_t index : support.indices) in.at(index) = true;
      for (size_t i = 0; i < count; ++i) ASSERT_TRUE(in[i] || entry_values[i] == 0) << i << " of " << other.name;
      std::vector<float> left = x;
      settle(0.25f, payload, support, left);
      for (size_t i = 0; i < count; ++i) {
        const volatile float product = -0.25f * values[i];
        ASSERT_EQ(left[i], in[i] ? x[i] + product : x[i]) << i << " of " << count << " on " << other.name;
      }
    }
  }
}

TEST_P(UpdateSuite, WhatIsTakenBackIsWhatWasSettled) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kUpdateSizes) {
    std::vector<float> x(count), sum(count);
    for (float& value : x) value = static_cast<float>(static_cast<int>(rng() % 255) - 127);
    for (float& value : sum) value = static_cast<float>(static_cast<int>(rng() % 255) - 127);
    const Payload payload = encode(x), entry = encode(sum, UpdateRole::kEntry);
    std::vector<float> accumulator = x;
    settle(0.5f, payload, codec_->support(entry), accumulator);
    codec_->add(0.5f, payload, codec_->support(entry), accumulator);
    for (size_t i = 0; i < count; ++i) ASSERT_NEAR(accumulator[i], x[i], exact() ? 0 : 1e-4) << i;
  }
}

TEST_P(UpdateSuite, PartsDecodeAsTheWhole) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kUpdateSizes) {
    const Payload payload = encode(normal_vector(rng, count, 1.0f), UpdateRole::kEntry);
    const std::vector<float> whole = decode(payload, count);
    for (int trial = 0; trial < 30; ++trial) {
      const size_t begin = rng() % (count + 1);
      std::vector<float> part(rng() % (count - begin + 1), NAN);
      codec_->decode_part(payload, codec_->support(payload), begin, part);
      const auto from = whole.begin() + static_cast<ptrdiff_t>(begin);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), from)) << begin << " + " << part.size() << " of " << count;
    }
  }
}

TEST_P(UpdateSuite, TheNormIsTheEuclideanOne) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kUpdateSizes) {
    const Payload payload = encode(normal_vector(rng, count, 3.0f));
    long double squares = 0;
    for (float value : decode(payload, count)) squares += static_cast<long double>(value) * value;
    const auto expected = static_cast<double>(std::sqrt(squares));
    EXPECT_NEAR(codec_->norm(payload), expected, 1e-12 * expected) << count;
    EXPECT_TRUE(std::isfinite(codec_->norm(encode(std::vector<float>(count, FLT_MAX))))) << count;
  }
}

TEST_P(UpdateSuite, ANonfiniteElementIsNeverEncoded) {
  TestRng rng(draw_rng_seed());
  for (size_t count : {size_t{1}, size_t{33}, size_t{50001}}) {
    for (float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
      std::vector<float> x = normal_vector(rng, count, 1.0f);
      x[rng() % count] = bad;
      EXPECT_EQ(try_encode(x), std::nullopt) << bad << " in " << count;
      EXPECT_EQ(try_encode(x, UpdateRole::kEntry), std::nullopt) << bad << " in " << count;
    }
  }
}

TEST_P(UpdateSuite, EveryFiniteAccumulatorEncodes) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kUpdateSizes) {
    for (UpdateRole role : {UpdateRole::kContribution, UpdateRole::kEntry}) {
      const std::vector<float> x = hostile_vector(rng, count);
      std::vector<float> left = x;
      settle(1, encode(x, role), {}, left);
      for (float value : left) ASSERT_TRUE(std::isfinite(value));
      settle(1, encode(std::vector<float>(count), role), {}, left);
    }
  }
}

TEST_P(UpdateSuite, NoPayloadOfAnotherSizeThanEncodeWritesPasses) {
  TestRng rng(draw_rng_seed());
  for (size_t count : {size_t{0}, size_t{1}, size_t{33}, size_t{1025}}) {
    for (UpdateRole role : {UpdateRole::kContribution, UpdateRole::kEntry}) {
      const Payload good = encode(normal_vector(rng, count, 1.0f), role);
      Payload longer = good;
      longer.resize(codec_->bytes_max(role, count) + 12);
      if (exact() && !codec_->residual().unsent) longer[0] |= std::byte{1};  // a zero byte alone is a payload of zeros
      for (size_t size = 0; size <= longer.size(); ++size) {
        const UpdateStatus expected = size == good.size() ? UpdateStatus::kOk : UpdateStatus::kWrongSize;
        const Bytes bytes = Bytes(longer).first(size);
        EXPECT_EQ(codec_->check(role, bytes, count), expected) << size << " for " << count;
        EXPECT_EQ(codec_->checked_norm(role, bytes, count).has_value(), size == good.size()) << size;
      }
    }
  }
}

// At the end of a run members hand in nothing, and owners answer with nothing, until all have heard it of all.
TEST_P(UpdateSuite, NothingIsOneByteOfADensePayload) {
  if (!exact() || codec_->residual().unsent) return;
  for (const size_t count : {size_t{1}, size_t{33}, size_t{5001}, size_t{66001}}) {
    for (const UpdateRole role : {UpdateRole::kContribution, UpdateRole::kEntry}) {
      for (const float zero : {0.0f, -0.0f}) {
        const Payload nothing = encode(std::vector<float>(count, zero), role);
        EXPECT_EQ(nothing.size(), 1u) << count;
        EXPECT_EQ(codec_->norm(nothing), 0);
        EXPECT_EQ(codec_->checked_norm(role, nothing, count), 0.0);
        for (const float value : decode(nothing, count)) ASSERT_EQ(value, 0);
        std::vector<float> target(count, 3.0f);
        settle(1, nothing, codec_->support(nothing), target);
        EXPECT_EQ(target, std::vector<float>(count, 3.0f));
        const Payload some = encode(std::vector<float>(count, 2.0f), role);
        std::vector<float> sum(count);
        const std::vector<UpdateTerm> terms = {{codec_.get(), 0.5f, nothing}, {codec_.get(), 0.5f, some}};
        codec_->merge(terms, sum);
        std::vector<float> half = decode(some, count);
        for (float& value : half) value *= 0.5f;
        EXPECT_EQ(sum, half) << "of nothing and something";
      }
    }
  }
}

// A flipped bit is refused, or it is a legal payload: then all that use it read and write their own elements only.
TEST_P(UpdateSuite, AFlippedBitIsRefusedOrHarmless) {
  TestRng rng(draw_rng_seed());
  // Each bit of a short payload; some of a long one, whose indices are coded.
  for (const auto& [role, count] : {std::pair(UpdateRole::kContribution, size_t{131}),
                                    {UpdateRole::kEntry, 131},
                                    {UpdateRole::kContribution, 66001},
                                    {UpdateRole::kEntry, 66001}}) {
    const Payload good = encode(normal_vector(rng, count, 1.0f), role);
    size_t refused = 0;
    const size_t bits = good.size() * 8;
    for (size_t flip = 0; flip < std::min<size_t>(bits, count == 131 ? bits : 200); ++flip) {
      const size_t bit = count == 131 ? flip : rng() % bits;
      SCOPED_TRACE(std::to_string(bit) + " of " + std::to_string(count));
      Payload damaged = good;
      damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      const bool legal = codec_->check(role, damaged, count) == UpdateStatus::kOk;
      const std::optional<double> norm = codec_->checked_norm(role, damaged, count);
      EXPECT_EQ(norm.has_value(), legal);
      if (!legal) {
        ++refused;
        continue;
      }
      EXPECT_EQ(norm, codec_->norm(damaged));
      for (float value : decode(damaged, count)) EXPECT_TRUE(std::isfinite(value));
      std::vector<float> target(count);
      codec_->add(1, damaged, codec_->support(good), target);
      EXPECT_TRUE(std::isfinite(codec_->norm(damaged)));
    }
    EXPECT_TRUE(refused > 0 || !codec_->residual().unsent || count != 131);
  }
}

inline std::string update_case_name(const testing::TestParamInfo<UpdateCase>& info) { return info.param.name; }

}  // namespace starling
