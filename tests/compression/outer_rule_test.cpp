#include "compression/outer_rule.h"
#include "compression/slice_math.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/vector_ops.h"
#include "tests/kernels/inputs.h"

namespace starling {
namespace {

using Payload = std::vector<std::byte>;

Payload entry_of(const UpdateCodec& codec, const std::vector<float>& x) {
  Payload out(codec.bytes_max(UpdateRole::kEntry, x.size()));
  const std::optional<size_t> bytes = codec.encode(UpdateRole::kEntry, x, {}, out);
  EXPECT_TRUE(bytes.has_value());
  out.resize(bytes.value_or(0));
  return out;
}

// As a replica applies it, with what is known of R and m after the entries before.
bool apply(const OuterRule& rule, const UpdateCodec& codec, float factor, const Payload& entry,
           std::vector<float>& params, std::vector<float>& momentum, OuterReach* reach) {
  return apply_entry(host_slice_math(), rule, codec, factor, entry, codec.norm(entry), params,
                     rule.has_momentum() ? std::span<float>(momentum) : std::span<float>(), reach);
}

// With nothing known, so that all values are looked at.
bool apply_afresh(const OuterRule& rule, const UpdateCodec& codec, float factor, const Payload& entry,
                  std::vector<float>& params, std::vector<float>& momentum) {
  OuterReach unknown;
  return apply(rule, codec, factor, entry, params, momentum, &unknown);
}

class OuterRuleOf : public testing::TestWithParam<UpdateKind> {
 protected:
  const std::unique_ptr<UpdateCodec> codec_ = make_update_codec({.kind = GetParam(), .density = 0.1});
};

TEST_P(OuterRuleOf, PlainAddsTheEntryOnce) {
  TestRng rng(draw_rng_seed());
  std::vector<float> none;
  for (size_t count : {size_t{0}, size_t{1}, size_t{33}, size_t{50001}}) {
    const std::vector<float> before = normal_vector(rng, count, 1.0f);
    const Payload entry = entry_of(*codec_, normal_vector(rng, count, 1.0f));
    std::vector<float> values(count), params = before, scaled = before;
    codec_->decode(entry, values);
    EXPECT_TRUE(apply_afresh({}, *codec_, 1, entry, params, none));
    EXPECT_TRUE(apply_afresh({.rate = 0.5f}, *codec_, 0.25f, entry, scaled, none));
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(params[i], before[i] + values[i]) << i;
      const volatile float change = 0.125f * values[i];
      ASSERT_EQ(scaled[i], before[i] + change) << i;
    }
  }
}

// Against the formula in double, over entries whose supports differ: m goes on where an entry holds nothing.
TEST_P(OuterRuleOf, NesterovFollowsTheFormula) {
  TestRng rng(draw_rng_seed());
  const size_t count = 4500;
  const OuterRule rule{.momentum = 0.9f, .rate = 0.7f};
  std::vector<float> params = normal_vector(rng, count, 1.0f), momentum(count), values(count);
  std::vector<double> r(params.begin(), params.end()), m(count);
  OuterReach reach;
  for (int step = 0; step < 10; ++step) {
    const float factor = step % 3 == 0 ? 0.5f : 1.0f;
    const Payload entry = entry_of(*codec_, normal_vector(rng, count, 1.0f));
    codec_->decode(entry, values);
    ASSERT_TRUE(apply(rule, *codec_, factor, entry, params, momentum, &reach));
    for (size_t i = 0; i < count; ++i) {
      const double v = static_cast<double>(factor) * static_cast<double>(values[i]);
      m[i] = static_cast<double>(rule.momentum) * m[i] + v;
      r[i] += static_cast<double>(rule.rate) * (v + static_cast<double>(rule.momentum) * m[i]);
    }
  }
  size_t moved = 0;
  for (size_t i = 0; i < count; ++i) {
    ASSERT_NEAR(momentum[i], m[i], 1e-5 * (1 + std::fabs(m[i]))) << i;
    ASSERT_NEAR(params[i], r[i], 1e-5 * (1 + std::fabs(r[i]))) << i;
    moved += momentum[i] != 0;
  }
  EXPECT_GT(moved, count / 2);
}

TEST_P(OuterRuleOf, AStepBeyondFloatChangesNothing) {
  TestRng rng(draw_rng_seed());
  const size_t count = 5000;
  const OuterRule nesterov{.momentum = 0.9f, .rate = 0.7f};
  for (bool in_momentum : {false, true}) {
    for (bool known : {false, true}) {  // what the entries before left of R and m
      std::vector<float> params = normal_vector(rng, count, 1.0f), momentum = normal_vector(rng, count, 1.0f);
      std::vector<float> update = normal_vector(rng, count, 1.0f);
      const size_t at = count - 1 - rng() % 100;  // after much that would fit
      update[at] = (in_momentum ? momentum : params)[at] = 3e38f;
      OuterReach reach, plain;
      if (known) {
        const Payload small = entry_of(*codec_, std::vector<float>(count, 1e-30f));
        ASSERT_TRUE(apply(nesterov, *codec_, 1, small, params, momentum, &reach));
        ASSERT_TRUE(apply({}, *codec_, 1, small, params, momentum, &plain));
      }
      const Payload entry = entry_of(*codec_, update);
      const std::vector<uint32_t> params_before = bits_of(params), momentum_before = bits_of(momentum);
      EXPECT_FALSE(apply(nesterov, *codec_, 1, entry, params, momentum, &reach));
      EXPECT_EQ(bits_of(params), params_before);
      EXPECT_EQ(bits_of(momentum), momentum_before);
      if (in_momentum) continue;
      EXPECT_FALSE(apply({}, *codec_, 1, entry, params, momentum, &plain));
      EXPECT_EQ(bits_of(params), params_before);
      EXPECT_TRUE(apply({}, *codec_, 0.01f, entry, params, momentum, &plain)) << "a smaller step fits";
      EXPECT_NE(bits_of(params), params_before);
    }
  }
}

// Steps that double until they no longer fit: whoever knows what came before judges as one that looks at every value.
TEST_P(OuterRuleOf, WhatIsKnownOfEarlierEntriesDecidesNothing) {
  TestRng rng(draw_rng_seed());
  const size_t count = 2000;
  for (const OuterRule& rule : {OuterRule{}, OuterRule{.momentum = 0.9f, .rate = 0.7f},
                                OuterRule{.momentum = 0.9f, .rate = 0.01f}}) {  // whose momentum is too large first
    std::vector<float> params = normal_vector(rng, count, 1.0f), momentum(count);
    OuterReach reach;
    int taken = 0, refused = 0;
    for (int step = 0; step < 300; ++step) {
      const float factor = step % 3 == 0 ? 0.5f : 1.0f;
      const Payload entry = entry_of(*codec_, normal_vector(rng, count, std::ldexp(1.0f, std::min(step, 125))));
      std::vector<float> afresh = params, momentum_afresh = momentum;
      const bool fits = apply(rule, *codec_, factor, entry, params, momentum, &reach);
      ASSERT_EQ(fits, apply_afresh(rule, *codec_, factor, entry, afresh, momentum_afresh)) << step;
      ASSERT_EQ(bits_of(params), bits_of(afresh)) << step;
      ASSERT_EQ(bits_of(momentum), bits_of(momentum_afresh)) << step;
      ASSERT_LE(static_cast<double>(max_abs(params.data(), count)), reach.params) << step;
      if (rule.has_momentum()) {
        ASSERT_LE(static_cast<double>(max_abs(momentum.data(), count)), reach.momentum) << step;
      }
      ++(fits ? taken : refused);
    }
    EXPECT_GT(taken, 120);
    EXPECT_GT(refused, 5);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, OuterRuleOf,
                         testing::Values(UpdateKind::kFp32, UpdateKind::kBf16, UpdateKind::kTopk,
                                         UpdateKind::kTopkBf16),
                         [](const auto& info) { return std::string(update_name(info.param)); });

}  // namespace
}  // namespace starling
