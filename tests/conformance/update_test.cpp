#include "tests/conformance/update_suite.h"

#include <map>

#include "compression/outer_rule.h"
#include "compression/slice_math.h"
#include "compression/update_sketch.h"
#include "tests/kernels/targets.h"

namespace starling {
namespace {

INSTANTIATE_TEST_SUITE_P(All, UpdateSuite, testing::ValuesIn(every_update()), update_case_name);

// Two members of a group need not have the same processor.
class UpdateOnEveryTarget : public UpdateSuite {};

TEST_P(UpdateOnEveryTarget, SamePayloadSameSumSameReplica) {
  TestRng rng(draw_rng_seed());
  const OuterRule nesterov{.momentum = 0.9f, .rate = 0.7f};
  for (size_t count : kUpdateSizes) {
    const std::vector<float> x = normal_vector(rng, count, 1.0f), y = normal_vector(rng, count, 0.3f);
    const std::vector<float> zeros(count);
    const auto run = [&] {
      const Payload payload = encode(x), entry = encode(y, UpdateRole::kEntry);
      const UpdateTerm terms[] = {{codec_.get(), 0.37f, payload}, {codec_.get(), 0.11f, entry}};
      std::vector<float> sum(count), left = x, params = x, momentum = y;
      codec_->merge(terms, sum);
      settle(0.3f, payload, codec_->support(entry), left);
      OuterReach reach;
      EXPECT_TRUE(apply_entry(host_slice_math(), nesterov, *codec_, 0.9f, entry, codec_->norm(entry), params, momentum,
                              &reach));
      return std::tuple(payload, entry, bits_of(sum), bits_of(left), bits_of(params), bits_of(momentum),
                        codec_->norm(payload));
    };
    const auto expected = run();
    for_each_target([&] { EXPECT_EQ(run(), expected) << count; });
  }
}

// At the end of a run members send fp32 whatever they sent before.
TEST(UpdateMerge, TakesFloatsOfBothSizesTogether) {
  TestRng rng(draw_rng_seed());
  const auto fp32 = make_update_codec({}), bf16 = make_update_codec({.kind = UpdateKind::kBf16});
  for (size_t count : kUpdateSizes) {
    std::vector<std::vector<std::byte>> payloads;
    std::vector<UpdateTerm> terms;
    std::vector<float> expected(count), values(count), sum(count, NAN);
    for (const UpdateCodec* codec : {bf16.get(), fp32.get(), bf16.get()}) {
      std::vector<std::byte>& payload = payloads.emplace_back(codec->bytes_max(UpdateRole::kContribution, count) + 1);
      const std::vector<float> x = normal_vector(rng, count, 1.0f);
      // From the second byte on: where no float may lie.
      const size_t bytes = codec->encode(UpdateRole::kContribution, x, {}, std::span(payload).subspan(1)).value();
      terms.push_back({codec, 0.3f, Bytes(payload).subspan(1, bytes)});
      codec->decode(terms.back().payload, values);
      for (size_t i = 0; i < count; ++i) {
        const volatile float product = 0.3f * values[i];
        expected[i] += product;
      }
    }
    for (const UpdateCodec* owner : {fp32.get(), bf16.get()}) {
      owner->merge(terms, sum);
      EXPECT_EQ(bits_of(sum), bits_of(expected)) << count;
    }
  }
}

// The columns of compression/updates.md: bits of an element at density 1 %, reply 2, table .2, headers counted.
TEST(UpdateBits, AreWhatThePageSays) {
  constexpr size_t kCount = 1'000'000;
  const std::map<std::string, std::pair<double, double>> page = {
      {"fp32", {32, 32}},
      {"bf16", {16, 16}},
      {"topk", {0.401, 0.782}},
      {"topk_bf16", {0.241, 0.462}},
      {"topk_int8", {0.162, 0.304}},
      {"dgc", {0.401, 0.782}},
      {"int8", {8.06, 8.06}},
      {"int4", {4.25, 4.25}},
      {"sketch", {8.1 * 0.2 + 22.1 * 0.04, 0.241 + 6.1 * 0.04}},
      {"sign_ef", {1.06, 8.06}},
      {"sign", {1, 1}},
      {"ternary", {2.06, 8.06}}};
  TestRng rng(draw_rng_seed());
  const std::vector<float> x = normal_vector(rng, kCount, 1.0f);
  for (const UpdateName& update : update_names()) {
    const auto codec = make_update_codec({.kind = update.kind});
    const auto bits = [&](UpdateRole role) {
      std::vector<std::byte> out(codec->bytes_max(role, kCount));
      return 8.0 * static_cast<double>(codec->encode(role, x, {}, out).value()) / kCount;
    };
    double up = bits(UpdateRole::kContribution), down = bits(UpdateRole::kEntry);
    if (const SketchTables* const tables = codec->tables()) {
      std::vector<std::byte> table(tables->bytes(kCount));
      ASSERT_TRUE(tables->encode(x, {}, table));
      const SketchTerm term{1, table};
      up += 8.0 * static_cast<double>(table.size()) / kCount;
      down += 8.0 * static_cast<double>(tables->request({&term, 1}, kCount, 1).size()) / kCount;
    }
    const auto said = page.find(std::string(update.name));
    ASSERT_NE(said, page.end()) << update.name << ": a codec without a row";
    EXPECT_NEAR(up, said->second.first, 0.01 * said->second.first) << update.name;
    EXPECT_NEAR(down, said->second.second, 0.01 * said->second.second) << update.name;
  }
}

// The columns of that page on bias and on what stays: the suite holds a codec only to what it declares.
TEST(UpdateResiduals, AreWhatThePageSays) {
  struct Kept {
    bool unbiased = false, dropped = false, unsent = false;
    double energy = 0;
  };
  const Kept sparse{.unsent = true, .energy = 0.99};  // density 1 %
  const std::map<std::string, Kept> page = {{"fp32", {}},
                                            {"bf16", {.energy = 0.004}},
                                            {"topk", sparse},
                                            {"topk_bf16", sparse},
                                            {"topk_int8", sparse},
                                            {"dgc", sparse},
                                            {"sketch", {.unsent = true, .energy = 0.96}},
                                            {"int8", {.unbiased = true, .energy = 0.008}},
                                            {"int4", {.unbiased = true, .energy = 0.653}},
                                            {"sign_ef", {.energy = 511.0 / 512}},
                                            {"sign", {.dropped = true}},
                                            {"ternary", {.dropped = true}}};
  for (const UpdateName& update : update_names()) {
    const UpdateResidual residual = make_update_codec({.kind = update.kind})->residual();
    const auto said = page.find(std::string(update.name));
    ASSERT_NE(said, page.end()) << update.name << ": a codec without a row";
    EXPECT_EQ(residual.unbiased, said->second.unbiased) << update.name;
    EXPECT_EQ(residual.dropped, said->second.dropped) << update.name;
    EXPECT_EQ(residual.unsent, said->second.unsent) << update.name;
    EXPECT_NEAR(residual.energy, said->second.energy, 2e-3) << update.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, UpdateOnEveryTarget, testing::ValuesIn(every_update()), update_case_name);

}  // namespace
}  // namespace starling
