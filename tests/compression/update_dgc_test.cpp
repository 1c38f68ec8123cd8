#include "compression/update_dgc.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/kernels/inputs.h"

namespace starling {
namespace {

constexpr size_t kCount = 100'000;

class UpdateDgcWarmUp : public testing::Test {
 protected:
  std::vector<std::byte> encode(UpdateRole role, const std::vector<float>& x, uint64_t entries) const {
    std::vector<std::byte> out(codec_->bytes_max(role, x.size()));
    const std::optional<size_t> size = codec_->encode(role, x, {.entries = entries}, out);
    EXPECT_TRUE(size.has_value());
    out.resize(size.value_or(0));
    EXPECT_EQ(codec_->check(role, out, x.size()), UpdateStatus::kOk);
    return out;
  }
  std::unique_ptr<UpdateCodec> codec_ =
      make_update_codec({.kind = UpdateKind::kDgc, .density = 0.01, .reply = 2, .warmup = 30});
};

TEST_F(UpdateDgcWarmUp, TheDensityFallsByFours) {
  TestRng rng(draw_rng_seed());
  const std::vector<float> x = normal_vector(rng, kCount, 1.0f);
  const auto sent = [&](UpdateRole role, uint64_t entries) {
    return codec_->support(encode(role, x, entries)).indices.size();
  };
  // 1/4, 1/16, 1/64, then 1 %: three stages in 30 entries.
  EXPECT_EQ(sent(UpdateRole::kContribution, 0), 25'000u);
  EXPECT_EQ(sent(UpdateRole::kContribution, 9), 25'000u);
  EXPECT_EQ(sent(UpdateRole::kContribution, 10), 6'250u);
  EXPECT_EQ(sent(UpdateRole::kContribution, 29), 1'563u);
  EXPECT_EQ(sent(UpdateRole::kContribution, 30), 1'000u);
  EXPECT_EQ(sent(UpdateRole::kContribution, 1'000'000), 1'000u);
  EXPECT_EQ(sent(UpdateRole::kEntry, 0), 50'000u);
  EXPECT_EQ(sent(UpdateRole::kEntry, 30), 2'000u);
}

TEST_F(UpdateDgcWarmUp, IndicesAreCodedForTheStageThatTheyAreOf) {
  TestRng rng(draw_rng_seed());
  const auto topk = make_update_codec({.kind = UpdateKind::kTopk, .density = 0.01});
  const std::vector<float> x = normal_vector(rng, kCount, 1.0f);
  std::vector<std::byte> plain(topk->bytes_max(UpdateRole::kContribution, kCount));
  plain.resize(topk->encode(UpdateRole::kContribution, x, {}, plain).value());
  EXPECT_EQ(encode(UpdateRole::kContribution, x, 30), plain) << "what topk sends";
  std::vector<float> few(kCount);
  for (size_t i = 0; i < 200; ++i) few[i * 37] = 1;  // fewer than any stage may have
  EXPECT_EQ(encode(UpdateRole::kContribution, few, 0), encode(UpdateRole::kContribution, few, 30));
  std::vector<std::byte> cut = encode(UpdateRole::kContribution, x, 10);
  for (size_t size = 0; size < cut.size(); size += 97) {
    ASSERT_NE(codec_->check(UpdateRole::kContribution, Bytes(cut).first(size), kCount), UpdateStatus::kOk) << size;
  }
}

TEST(UpdateDgc, OnlyItHasAVelocityUnasked) {
  for (const UpdateName& update : update_names()) {
    EXPECT_EQ(make_update_codec({.kind = update.kind})->velocity().used, update.kind == UpdateKind::kDgc);
    const bool may = update.kind == UpdateKind::kDgc || update.kind == UpdateKind::kSketch;
    const UpdateVelocity asked = make_update_codec({.kind = update.kind, .momentum = 0.5, .clip = 3})->velocity();
    EXPECT_EQ(asked.used, may) << update.name;
    EXPECT_EQ(asked.momentum, may ? 0.5f : 0) << update.name;
    EXPECT_EQ(asked.clip, update.kind == UpdateKind::kDgc ? 3 : 0) << update.name << ": dgc alone clips";
  }
  EXPECT_EQ(make_update_codec({.kind = UpdateKind::kDgc})->velocity().momentum, 0.9f);
}

}  // namespace
}  // namespace starling
