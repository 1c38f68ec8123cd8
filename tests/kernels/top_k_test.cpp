#include "kernels/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/kernels/inputs.h"
#include "tests/kernels/targets.h"

namespace starling {
namespace {

constexpr size_t kSizes[] = {0, 1, 3, 31, 33, 1023, 1025, 4097, 50001};

// By sorting all elements.
std::vector<uint32_t> plain_top_k(const std::vector<float>& x, size_t k) {
  std::vector<uint32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0u);
  std::erase_if(order, [&](uint32_t i) { return x[i] == 0; });
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return std::fabs(x[a]) > std::fabs(x[b]); });
  order.resize(std::min(k, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

std::optional<std::vector<uint32_t>> run_top_k(const std::vector<float>& x, size_t k, TopKScratch* scratch) {
  constexpr uint32_t kGuard = 0xABABABABu;
  std::vector<uint32_t> indices(std::min(k, x.size()) + 1, kGuard);
  const auto found = top_k(x.data(), x.size(), k, scratch, indices.data());
  if (!found) return std::nullopt;
  EXPECT_EQ(indices.back(), kGuard) << "wrote beyond the room";
  indices.resize(*found);
  return indices;
}

void expect_exact(const std::vector<float>& x, const char* what) {
  const size_t count = x.size();
  for (size_t k : {size_t{0}, size_t{1}, (count + 99) / 100, count / 2, count, count + 5}) {
    const std::vector<uint32_t> expected = plain_top_k(x, k);
    TopKScratch scratch;
    for_each_target([&] { EXPECT_EQ(run_top_k(x, k, &scratch), expected) << what << ": " << k << " of " << count; });
  }
}

TEST(TopK, AreTheLargestOfAnyInput) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kSizes) {
    expect_exact(normal_vector(rng, count, 1.0f), "normal");
    expect_exact(hostile_vector(rng, count), "hostile");
  }
}

// A sample says little of these; the result must not depend on it.
TEST(TopK, AreTheLargestWhereASampleMisleads) {
  TestRng rng(draw_rng_seed());
  const size_t count = 50001;
  std::vector<float> few(count, 0.0f), cluster(count, 1e-3f), rows(count);
  for (int i = 0; i < 20; ++i) few[rng() % count] = normal_vector(rng, 1, 1.0f)[0];
  const size_t at = rng() % (count - 700);
  for (size_t i = 0; i < 700; ++i) cluster[at + i] = static_cast<float>(i + 1);
  for (size_t i = 0; i < count; ++i) rows[i] = i % 16 == 5 ? 7.0f + static_cast<float>(i % 3) : 0.1f;
  expect_exact(few, "few are not zero");
  expect_exact(cluster, "all lie together");
  expect_exact(rows, "one column");
  expect_exact(std::vector<float>(count, 0.0f), "zeros");
}

// The worst of samples: what it sees is large, and nothing else is. Its first floor lets through too few.
TEST(TopK, AreTheLargestWhereTheSampleSeesThemAll) {
  TestRng rng(draw_rng_seed());
  std::vector<float> x(50001);
  std::iota(x.begin(), x.end(), 1.0f);
  TopKScratch scratch;
  ASSERT_TRUE(run_top_k(x, 1, &scratch).has_value());
  const std::vector<int32_t> seen = scratch.sample;  // each names its place
  ASSERT_GT(seen.size(), 600u);                      // more than the 501 wanted below
  std::fill(x.begin(), x.end(), 1e-3f);
  for (int32_t bits : seen) {
    x[static_cast<size_t>(std::bit_cast<float>(bits)) - 1] = 2 + std::fabs(normal_vector(rng, 1, 1.0f)[0]);
  }
  expect_exact(x, "as sampled");
}

// Values that are made piece by piece, sampled in rows, are found as those of a vector.
TEST(TopK, OfValuesThatAreMadeTheSameAreTaken) {
  TestRng rng(draw_rng_seed());
  for (const size_t count : {size_t{0}, size_t{1}, size_t{255}, size_t{4097}, size_t{50001}, size_t{300'000}}) {
    std::vector<float> x = normal_vector(rng, count, 1.0f), piece(kTopKPiece);
    for (size_t i = 0; i < count; i += 256) x[i] *= 100;  // where the sample looks
    const auto at = [&](size_t begin, size_t length) {
      EXPECT_LE(length, kTopKPiece);
      EXPECT_LE(begin + length, count);
      EXPECT_EQ(begin % 256, 0u);
      std::copy_n(x.begin() + static_cast<ptrdiff_t>(begin), length, piece.begin());
      return piece.data();
    };
    TopKScratch scratch;
    for (const size_t k : {size_t{1}, count / 100, count / 3}) {
      std::vector<uint32_t> made(std::min(k, count)), plain(made.size());
      const std::optional<size_t> found = top_k({at, 16, 256}, count, k, &scratch, made.data());
      EXPECT_EQ(found, top_k(x.data(), count, k, &scratch, plain.data()));
      EXPECT_EQ(made, plain) << k << " of " << count;
    }
  }
}

TEST(TopK, OfEqualMagnitudesTheLowerIndexIsTaken) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kSizes) {
    std::vector<float> x(count);
    for (float& value : x) value = static_cast<float>(static_cast<int>(rng() % 5) - 2);
    expect_exact(x, "five values");
    expect_exact(std::vector<float>(count, -3.5f), "one value");
  }
}

TEST(TopK, ANonfiniteElementIsFoundWhereverItStands) {
  TestRng rng(draw_rng_seed());
  constexpr float kBad[] = {INFINITY, -INFINITY, NAN, -NAN};
  TopKScratch scratch;
  for (size_t count : kSizes) {
    for (int trial = 0; trial < 20 && count > 0; ++trial) {
      std::vector<float> x = normal_vector(rng, count, 1.0f);
      x[trial == 0 ? count - 1 : rng() % count] = kBad[trial % 4];
      for_each_target([&] {
        for (size_t k : {size_t{0}, size_t{1}, count}) EXPECT_EQ(run_top_k(x, k, &scratch), std::nullopt) << count;
      });
    }
  }
}

}  // namespace
}  // namespace starling
