#include "kernels/rice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "tests/kernels/inputs.h"

namespace starling {
namespace {

using Indices = std::vector<uint32_t>;

struct Coded {
  std::vector<std::byte> bytes;
  size_t unary_bytes;
};

Coded code(const Indices& indices, unsigned bits, size_t limit) {
  Coded coded{std::vector<std::byte>(rice_bytes_max(indices.size(), limit, bits)), 0};
  coded.unary_bytes = rice_encode(indices.data(), indices.size(), bits, coded.bytes.data());
  EXPECT_LE(rice_low_bytes(indices.size(), bits) + coded.unary_bytes, coded.bytes.size());
  coded.bytes.resize(rice_low_bytes(indices.size(), bits) + coded.unary_bytes);
  return coded;
}

std::optional<Indices> decode(const Coded& coded, size_t count, unsigned bits, size_t limit) {
  Indices indices(count);
  if (!rice_decode(coded.bytes.data(), coded.unary_bytes, count, bits, limit, indices.data())) return std::nullopt;
  return indices;
}

// Each element with probability p, in random places.
Indices some_of(TestRng& rng, size_t count, double p) {
  std::bernoulli_distribution chosen(p);
  Indices indices;
  for (size_t i = 0; i < count; ++i) {
    if (chosen(rng)) indices.push_back(static_cast<uint32_t>(i));
  }
  return indices;
}

// The same code, bit by bit.
std::vector<std::byte> reference(const Indices& indices, unsigned bits) {
  std::vector<bool> low, unary;
  uint32_t next = 0;
  for (const uint32_t index : indices) {
    const uint32_t gap = index - next;
    for (unsigned b = 0; b < bits; ++b) low.push_back((gap >> b & 1) != 0);
    unary.insert(unary.end(), gap >> bits, false);
    unary.push_back(true);
    next = index + 1;
  }
  std::vector<std::byte> bytes;
  for (const std::vector<bool>& stream : {low, unary}) {
    for (size_t i = 0; i < stream.size(); ++i) {
      if (i % 8 == 0) bytes.push_back(std::byte{0});
      if (stream[i]) bytes.back() |= static_cast<std::byte>(1 << i % 8);
    }
  }
  return bytes;
}

TEST(Rice, BytesByHand) {
  // Gaps 3, 0, 5 with one low bit each: low 1, 0, 1; unary 0 1, 1, 0 0 1.
  EXPECT_EQ(code({3, 4, 10}, 1, 16).bytes, (std::vector<std::byte>{std::byte{0b101}, std::byte{0b100110}}));
  EXPECT_EQ(code({}, 5, 16).bytes.size(), 0u);
}

TEST(Rice, WhatWasWrittenIsRead) {
  TestRng rng(draw_rng_seed());
  for (const size_t count : {0, 1, 3, 63, 64, 65, 1000, 70'000}) {
    for (const double p : {0.0, 0.0005, 0.01, 0.1, 0.5, 1.0}) {
      const Indices indices = some_of(rng, count, p);
      for (const unsigned bits : {0u, 1u, 6u, 7u, 13u, 31u, rice_bits(indices.size(), count)}) {
        const Coded coded = code(indices, bits, count);
        ASSERT_EQ(coded.bytes, reference(indices, bits)) << count << ", " << bits;
        ASSERT_EQ(decode(coded, indices.size(), bits, count), indices) << count << ", " << bits;
      }
    }
  }
  const Indices far = {0, 0x7FFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF};
  EXPECT_EQ(decode(code(far, 30, size_t{1} << 32), 4, 30, size_t{1} << 32), far);
}

TEST(Rice, TakesHardlyMoreThanTheEntropy) {
  TestRng rng(draw_rng_seed());
  const size_t count = 4'000'000;
  for (const double p : {0.0005, 0.001, 0.0031, 0.0055, 0.01, 0.02, 0.05, 0.1}) {
    const Indices indices = some_of(rng, count, p);
    const size_t bytes = code(indices, rice_bits(indices.size(), count), count).bytes.size();
    const double each = 8.0 * static_cast<double>(bytes) / static_cast<double>(indices.size());
    const double share = static_cast<double>(indices.size()) / static_cast<double>(count);
    const double entropy = -std::log2(share) - (1 - share) / share * std::log2(1 - share);
    EXPECT_LT(each - entropy, p == 0.01 ? 0.05 : 0.15) << p << ": " << each << " bits";
    EXPECT_GT(each, entropy) << p;
  }
}

TEST(Rice, EveryOtherStreamIsRefused) {
  TestRng rng(draw_rng_seed());
  const size_t limit = 700;
  const Indices indices = some_of(rng, limit, 0.1);
  const unsigned bits = rice_bits(indices.size(), limit);
  const Coded good = code(indices, bits, limit);
  ASSERT_TRUE(decode(good, indices.size(), bits, limit));
  EXPECT_FALSE(decode(good, indices.size(), bits, indices.back())) << "one lies beyond the end";
  EXPECT_TRUE(decode(good, indices.size(), bits, indices.back() + 1));
  for (size_t cut = 1; cut <= good.unary_bytes; ++cut) {
    Coded shorter = good;
    shorter.unary_bytes -= cut;
    shorter.bytes.resize(shorter.bytes.size() - cut);
    EXPECT_FALSE(decode(shorter, indices.size(), bits, limit)) << cut;
  }
  Coded longer = good;
  longer.bytes.push_back(std::byte{0});
  ++longer.unary_bytes;
  EXPECT_FALSE(decode(longer, indices.size(), bits, limit)) << "a zero byte at the end";
  // A flipped bit says other indices, or none: it never says the same ones, and never wrong ones.
  for (size_t bit = 0; bit < 8 * good.bytes.size(); ++bit) {
    Coded damaged = good;
    damaged.bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const std::optional<Indices> read = decode(damaged, indices.size(), bits, limit);
    if (!read) continue;
    EXPECT_NE(*read, indices) << bit;
    EXPECT_TRUE(std::is_sorted(read->begin(), read->end()) && read->back() < limit) << bit;
    EXPECT_EQ(std::set<uint32_t>(read->begin(), read->end()).size(), indices.size()) << bit;
    EXPECT_EQ(code(*read, bits, limit).bytes, damaged.bytes) << bit << ": two streams for the same indices";
  }
}

}  // namespace
}  // namespace starling
