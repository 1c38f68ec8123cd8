#include "compression/update_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "tests/kernels/inputs.h"
#include "tests/kernels/targets.h"

namespace starling {
namespace {

using Payload = std::vector<std::byte>;

constexpr UpdateRole kContribution = UpdateRole::kContribution, kEntry = UpdateRole::kEntry;
constexpr uint64_t kSeed = 77;
constexpr size_t kSizes[] = {0, 1, 3, 257, 5001, 70001};

class UpdateSketch : public testing::Test {
 protected:
  UpdateOptions options_{.kind = UpdateKind::kSketch, .density = 0.01, .table = 0.2, .candidates = 4};
  std::unique_ptr<UpdateCodec> codec_ = make_update_codec(options_);
  const SketchTables& tables_ = *codec_->tables();

  Payload table(const std::vector<float>& x, uint64_t seed = kSeed) const {
    Payload out(tables_.bytes(x.size()));
    EXPECT_TRUE(tables_.encode(x, {.own = 5, .common = seed}, out));
    EXPECT_EQ(tables_.check(out, x.size(), seed), UpdateStatus::kOk);
    return out;
  }
  Payload request(const std::vector<std::vector<float>>& members, uint64_t seed = kSeed) const {
    std::vector<Payload> all;
    for (const std::vector<float>& x : members) all.push_back(table(x, seed));
    return request_of(all, members[0].size(), seed);
  }
  Payload request_of(const std::vector<Payload>& all, size_t count, uint64_t seed = kSeed) const {
    std::vector<SketchTerm> terms;
    for (const Payload& one : all) terms.push_back({1.0f / static_cast<float>(all.size()), one});
    Payload bytes = tables_.request(terms, count, seed);
    EXPECT_EQ(tables_.check_request(bytes, count), UpdateStatus::kOk);
    return bytes;
  }
  std::vector<uint32_t> requested(const std::vector<std::vector<float>>& members, uint64_t seed = kSeed) const {
    return SketchTables::requested(request(members, seed));
  }
  Payload encode(UpdateRole role, const std::vector<float>& x, std::span<const uint32_t> wanted) const {
    Payload out(codec_->bytes_max(role, x.size()));
    const std::optional<size_t> size = codec_->encode(role, x, {.own = 1, .common = kSeed, .requested = wanted}, out);
    EXPECT_TRUE(size.has_value());
    out.resize(size.value_or(0));
    EXPECT_EQ(codec_->check(role, out, x.size()), UpdateStatus::kOk);
    return out;
  }
};

double energy(const std::vector<float>& x) {
  return std::inner_product(x.begin(), x.end(), x.begin(), 0.0, std::plus<>(),
                            [](double a, double b) { return a * b; });
}

std::vector<float> heavy_tailed(TestRng& rng, size_t count) {
  std::vector<float> x = normal_vector(rng, count, 1.0f);
  for (float& value : x) value = value * value * value;
  return x;
}

TEST_F(UpdateSketch, ATableIsAFifthOfTheElementsInBytesAndARequestALittle) {
  EXPECT_EQ(tables_.bytes(150'000), 8 + 30'000 + 4 * ((30'000 + 511) / 512u));
  EXPECT_EQ(tables_.bytes(1), 8 + 768 + 8u) << "no fewer columns than a block";
  TestRng rng(draw_rng_seed());
  const size_t bytes = request({heavy_tailed(rng, 100'000)}).size();
  EXPECT_LE(8.0 * static_cast<double>(bytes), 4000 * 6.3) << "4 % of the elements: an entropy of 6.06 bits each";
}

TEST_F(UpdateSketch, OneMembersLargestElementsAreRequested) {
  TestRng rng(draw_rng_seed());
  for (const size_t count : kSizes) {
    std::vector<float> x(count);
    const size_t k = (count + 999) / 1000;
    for (size_t i = 0; i < k; ++i) x[rng() % count] = normal_vector(rng, 1, 1.0f)[0] < 0 ? -1.0f : 1.0f;
    const std::vector<uint32_t> wanted = requested({x});
    // Those that share two of three cells with others of the other sign: of 71, one in a hundred runs, two at once in
    // ten thousand, four in a hundred million.
    size_t missing = 0;
    for (uint32_t i = 0; i < count; ++i) missing += x[i] != 0 && !std::binary_search(wanted.begin(), wanted.end(), i);
    EXPECT_LE(missing, 3u) << count;
  }
}

// What topk cannot see: elements that are small at each member, below what chance makes of others, and that all share.
TEST_F(UpdateSketch, WhatIsLargeInTheSumAloneIsRequested) {
  TestRng rng(draw_rng_seed());
  constexpr size_t kCount = 20'000, kMembers = 16;
  std::vector<std::vector<float>> members;
  for (size_t m = 0; m < kMembers; ++m) {
    members.push_back(normal_vector(rng, kCount, 0.1f));
    for (size_t i = 0; i < kCount; i += 200) members[m][i] = 0.9f;
    for (size_t i = 0; i < kCount; i += 50) members[m][i + 2 * m + 1] = rng() % 2 == 0 ? 2.0f : -2.0f;
    const auto topk = make_update_codec({.kind = UpdateKind::kTopk, .density = 0.01});
    Payload own(topk->bytes_max(kContribution, kCount));
    own.resize(topk->encode(kContribution, members[m], {}, own).value());
    for (const uint32_t i : topk->support(own).indices) ASSERT_NE(i % 200, 0u) << "topk sees it too";
  }
  const std::vector<uint32_t> wanted = requested(members);
  size_t found = 0;
  for (uint32_t i = 0; i < kCount; i += 200) found += std::binary_search(wanted.begin(), wanted.end(), i);
  EXPECT_GE(found, 80u) << "of 100";
}

TEST_F(UpdateSketch, OneHugeTableDoesNotChooseForAll) {
  TestRng rng(draw_rng_seed());
  constexpr size_t kCount = 20'000;
  std::vector<std::vector<float>> members(5, std::vector<float>(kCount));
  for (size_t m = 0; m < 4; ++m) {
    for (size_t i = 0; i < kCount; i += 200) members[m][i] = 3;
  }
  members[4] = normal_vector(rng, kCount, 1e30f);
  const std::vector<uint32_t> wanted = requested(members);
  size_t found = 0;
  for (uint32_t i = 0; i < kCount; i += 200) found += std::binary_search(wanted.begin(), wanted.end(), i);
  EXPECT_GE(found, 95u) << "of 100";
}

TEST_F(UpdateSketch, EverySeedHidesOtherElements) {
  TestRng rng(draw_rng_seed());
  const std::vector<float> x = heavy_tailed(rng, 50'000);
  EXPECT_NE(requested({x}, 1), requested({x}, 2));
  EXPECT_EQ(requested({x}, 1), requested({x}, 1));
}

// Accumulators, tables, a request, payloads, an entry, settling: what a round of a group does. The part of the sum's
// energy that an entry takes out, against the largest elements themselves.
TEST_F(UpdateSketch, RoundsTakeOutWhatIsLargeAndLoseNothing) {
  TestRng rng(draw_rng_seed());
  constexpr size_t kCount = 40'000, kMembers = 4;
  std::vector<std::vector<float>> members;
  std::vector<double> all(kCount), entries(kCount);
  for (size_t m = 0; m < kMembers; ++m) {
    members.push_back(heavy_tailed(rng, kCount));
    // So that a quarter of the sum of four fits the eight bits of a bf16.
    for (float& value : members[m]) value = 4 * std::clamp(std::nearbyint(value), -63.0f, 63.0f);
    for (size_t i = 0; i < kCount; ++i) all[i] += static_cast<double>(members[m][i]) / kMembers;
  }
  double recall = 0, left = 1;
  for (uint64_t round = 0; round < 10; ++round) {
    const std::vector<uint32_t> wanted = requested(members, round);
    std::vector<Payload> payloads;
    std::vector<UpdateTerm> terms;
    for (const std::vector<float>& x : members) payloads.push_back(encode(kContribution, x, wanted));
    for (const Payload& payload : payloads) terms.push_back({codec_.get(), 1.0f / kMembers, payload});
    std::vector<float> sum(kCount), values(kCount), whole(kCount);
    codec_->merge(terms, sum);
    const Payload entry = encode(kEntry, sum, {});
    codec_->decode(entry, values);
    for (size_t i = 0; i < kCount; ++i) {
      entries[i] += static_cast<double>(values[i]);
      for (const std::vector<float>& x : members) whole[i] += x[i] / kMembers;
    }
    const double before = energy(whole);
    std::vector<float> sorted = whole;
    std::sort(sorted.begin(), sorted.end(), [](float a, float b) { return std::fabs(a) > std::fabs(b); });
    sorted.resize(kCount / 100);
    recall += energy(values) / energy(sorted) / 10;
    for (size_t m = 0; m < kMembers; ++m) codec_->add(-1, payloads[m], codec_->support(entry), members[m]);
    for (size_t i = 0; i < kCount; ++i) whole[i] -= values[i];
    left = energy(whole) / before;
    EXPECT_LE(left, 1 - 0.01) << "no better than elements by chance";
  }
  std::cout << "energy recalled of the largest: " << recall << std::endl;
  EXPECT_GE(recall, 0.5);
  for (size_t i = 0; i < kCount; ++i) {
    double waiting = 0;
    for (const std::vector<float>& x : members) waiting += static_cast<double>(x[i]) / kMembers;
    ASSERT_EQ(entries[i] + waiting, all[i]) << i;
  }
}

TEST_F(UpdateSketch, ZerosAreNeitherRequestedNorSent) {
  for (const size_t count : kSizes) {
    const std::vector<float> zeros(count);
    EXPECT_TRUE(requested({zeros, zeros}).empty());
    EXPECT_TRUE(codec_->support(encode(kContribution, zeros, {})).indices.empty());
  }
  std::vector<float> x(5000);
  x[7] = 1;
  const std::vector<uint32_t> wanted = {6, 7, 8};
  EXPECT_EQ(codec_->support(encode(kContribution, x, wanted)).indices, std::vector<uint32_t>{7});
}

TEST_F(UpdateSketch, WhatIsNotFiniteMakesNoTableAndNoPayload) {
  TestRng rng(draw_rng_seed());
  const std::vector<uint32_t> wanted = {1, 2};
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> x = normal_vector(rng, 5001, 1.0f);
    x[rng() % x.size()] = bad;
    Payload out(tables_.bytes(x.size()));
    EXPECT_FALSE(tables_.encode(x, {.common = kSeed}, out));
    Payload payload(codec_->bytes_max(kContribution, x.size()));
    EXPECT_EQ(codec_->encode(kContribution, x, {.requested = wanted}, payload), std::nullopt);
  }
  for (const float large : {FLT_MAX, -FLT_MAX}) {
    Payload out(tables_.bytes(5001));
    (void)tables_.encode(std::vector<float>(5001, large), {.common = kSeed}, out);  // false or finite, never a crash
  }
  std::vector<float> lone(5001);
  lone[9] = FLT_MAX;
  EXPECT_FALSE(requested({lone, lone}).empty());
}

TEST_F(UpdateSketch, TablesOfAnotherSeedOrSizeAreRefused) {
  TestRng rng(draw_rng_seed());
  for (const size_t count : {size_t{0}, size_t{1}, size_t{5001}}) {
    const Payload good = table(normal_vector(rng, count, 1.0f));
    EXPECT_EQ(tables_.check(good, count, kSeed + 1), UpdateStatus::kWrongSize);
    EXPECT_EQ(tables_.check(good, 10 * (count + 1000), kSeed), UpdateStatus::kWrongSize);
    Payload longer = good;
    longer.resize(good.size() + 9);
    for (size_t size = 0; size <= longer.size(); ++size) {
      const UpdateStatus expected = size == good.size() ? UpdateStatus::kOk : UpdateStatus::kWrongSize;
      ASSERT_EQ(tables_.check(Bytes(longer).first(size), count, kSeed), expected) << size;
    }
    for (const float bad : {NAN, INFINITY, 1e38f, -1.0f}) {
      Payload damaged = good;
      std::memcpy(damaged.data() + 8, &bad, sizeof bad);
      EXPECT_EQ(tables_.check(damaged, count, kSeed), UpdateStatus::kNonFinite) << bad;
    }
  }
}

// A flipped bit is refused, or it is a legal table or request: then whoever uses it stays within its own elements.
TEST_F(UpdateSketch, AFlippedBitIsRefusedOrHarmless) {
  TestRng rng(draw_rng_seed());
  constexpr size_t kCount = 1025;
  const std::vector<float> x = normal_vector(rng, kCount, 1.0f);
  const Payload good = table(x);
  size_t refused = 0;
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    Payload damaged = good;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    if (tables_.check(damaged, kCount, kSeed) != UpdateStatus::kOk) {
      ++refused;
      continue;
    }
    EXPECT_GE(bit, 64u) << "another seed";
    if (bit % 61 == 0) request_of({good, damaged}, kCount);
  }
  EXPECT_GE(refused, 64u);
  for (const size_t count : {size_t{1025}, size_t{70001}}) {  // plain indices, and coded ones
    const std::vector<float> y = heavy_tailed(rng, count);
    const Payload asked = request({y});
    for (size_t size = 0; size < asked.size(); ++size) {
      ASSERT_NE(tables_.check_request(Bytes(asked).first(size), count), UpdateStatus::kOk) << size;
    }
    for (size_t bit = 0; bit < asked.size() * 8; bit += count > 5000 ? 7 : 1) {
      Payload damaged = asked;
      damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      if (tables_.check_request(damaged, count) != UpdateStatus::kOk) continue;
      const std::vector<uint32_t> wanted = SketchTables::requested(damaged);
      ASSERT_TRUE(std::adjacent_find(wanted.begin(), wanted.end(), std::greater_equal<>()) == wanted.end());
      ASSERT_LT(wanted.back(), count);
      if (bit % 101 == 0) encode(kContribution, y, wanted);
    }
  }
}

TEST_F(UpdateSketch, TheSameTableAndRequestOnEveryTarget) {
  TestRng rng(draw_rng_seed());
  for (const size_t count : kSizes) {
    const std::vector<float> x = heavy_tailed(rng, count), y = heavy_tailed(rng, count);
    const Payload expected_table = table(x), expected_request = request({x, y});
    for_each_target([&] {
      EXPECT_EQ(table(x), expected_table) << count;
      EXPECT_EQ(request({x, y}), expected_request) << count;
    });
  }
}

}  // namespace
}  // namespace starling
