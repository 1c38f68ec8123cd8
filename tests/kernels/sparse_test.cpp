#include "kernels/sparse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "tests/kernels/inputs.h"

namespace starling {
namespace {

// One byte off any alignment.
struct Indices {
  std::vector<std::byte> bytes;
  size_t count;

  explicit Indices(const std::vector<uint32_t>& values) : bytes(1), count(values.size()) {
    const auto raw = std::as_bytes(std::span(values));
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  }
  const std::byte* data() const { return bytes.data() + 1; }
};

std::vector<uint32_t> some_of(TestRng& rng, size_t count, uint64_t one_in) {
  std::vector<uint32_t> chosen;
  for (size_t i = 0; i < count; ++i) {
    if (rng() % one_in == 0) chosen.push_back(static_cast<uint32_t>(i));
  }
  return chosen;
}

TEST(Sparse, OnlyIndicesThatAscendBelowTheLimitPass) {
  const auto pass = [](const std::vector<uint32_t>& indices, size_t limit) {
    const Indices bytes(indices);
    return indices_ascend_below(bytes.data(), bytes.count, limit);
  };
  EXPECT_TRUE(pass({}, 0));
  EXPECT_TRUE(pass({0}, 1));
  EXPECT_FALSE(pass({0}, 0));
  EXPECT_TRUE(pass({0, 1, 7}, 8));
  EXPECT_FALSE(pass({0, 1, 8}, 8));
  EXPECT_FALSE(pass({0, 0, 7}, 8));
  EXPECT_FALSE(pass({1, 0, 7}, 8));
  EXPECT_FALSE(pass({0, 7, 6}, 8));
  EXPECT_FALSE(pass({9, 1, 7}, 8));
  EXPECT_TRUE(pass({0xFFFFFFFFu}, size_t{1} << 32));
  EXPECT_FALSE(pass({0xFFFFFFFFu, 0}, size_t{1} << 32));
}

TEST(Sparse, CountsTheIndicesBelowAnyLimit) {
  TestRng rng(draw_rng_seed());
  for (size_t count : {size_t{0}, size_t{1}, size_t{40}, size_t{200}}) {
    const std::vector<uint32_t> chosen = some_of(rng, count, 3);
    const Indices bytes(chosen);
    for (size_t limit = 0; limit <= count + 1; ++limit) {
      const auto expected = std::lower_bound(chosen.begin(), chosen.end(), limit) - chosen.begin();
      EXPECT_EQ(indices_below(bytes.data(), bytes.count, limit), static_cast<size_t>(expected)) << limit;
    }
  }
}

TEST(Sparse, GatherAndScatterTouchTheirElementsAlone) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kTestSizes) {
    const std::vector<uint32_t> chosen = some_of(rng, count, 7);
    const Indices bytes(chosen);
    const std::vector<float> x = hostile_vector(rng, count), y = hostile_vector(rng, count);
    const float a = normal_vector(rng, 1, 1.0f)[0];
    std::vector<float> values(chosen.size());
    gather(x.data(), bytes.data(), bytes.count, values.data());
    std::vector<float> scattered = y, added = y, expected_scattered = y, expected_added = y;
    for (size_t j = 0; j < chosen.size(); ++j) {
      const uint32_t i = chosen[j];
      EXPECT_EQ(std::bit_cast<uint32_t>(values[j]), std::bit_cast<uint32_t>(x[i]));
      const volatile float product = a * x[i];  // volatile: rounded before the addition
      expected_scattered[i] = x[i];
      expected_added[i] = y[i] + product;
    }
    scatter_axpy(a, bytes.data(), values.data(), bytes.count, added.data());
    scatter(bytes.data(), values.data(), bytes.count, 0, scattered.data());
    EXPECT_EQ(bits_of(scattered), bits_of(expected_scattered)) << count;
    EXPECT_EQ(bits_of(added), bits_of(expected_added)) << count;
  }
}

TEST(Sparse, ScatterCountsFromItsBase) {
  const Indices bytes({100, 103});
  const float values[] = {2, 3};
  std::vector<float> out(4, 1.0f);
  scatter(bytes.data(), values, 2, 100, out.data());
  EXPECT_EQ(out, (std::vector<float>{2, 1, 1, 3}));
}

}  // namespace
}  // namespace starling
