#include "compression/low_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "tests/kernels/inputs.h"

namespace starling {
namespace {

using Values = std::vector<float>;

struct Halves {
  std::vector<std::byte> first, second;
  std::vector<std::byte> both() const {
    std::vector<std::byte> joined = first;
    joined.insert(joined.end(), second.begin(), second.end());
    return joined;
  }
};

struct Exchanged {
  Halves a, b;
};

Exchanged exchange(const LowRank& codec, const Values& a, const Values& b, uint64_t seed) {
  Exchanged sent;
  const auto first = [&](const Values& x) {
    std::vector<std::byte> half(codec.first_bytes());
    codec.write_first(x.data(), seed, half);
    EXPECT_EQ(codec.check_first(half), PayloadStatus::kOk);
    return half;
  };
  sent.a.first = first(a);
  sent.b.first = first(b);
  const auto second = [&](const Values& x, const Halves& own, const Halves& peer) {
    std::vector<std::byte> half(codec.second_bytes());
    codec.write_second(x.data(), own.first, peer.first, half);
    EXPECT_EQ(codec.check_second(half), PayloadStatus::kOk);
    return half;
  };
  sent.a.second = second(a, sent.a, sent.b);
  sent.b.second = second(b, sent.b, sent.a);
  return sent;
}

View view(Values& x) { return {x.data(), x.size(), MemorySpace::kHost}; }

// What `own` is moved by, with a coefficient of 1.
Values delta(const LowRank& codec, const Halves& own, const Halves& peer) {
  Values moved(codec.element_count());
  codec.apply(1, own.both(), peer.both(), view(moved));
  return moved;
}

double squares(const Values& x) {
  double sum = 0;
  for (float value : x) sum += double{value} * double{value};
  return sum;
}

Values minus(const Values& a, const Values& b) {
  Values difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  return difference;
}

Values outer(TestRng& rng, size_t rows, size_t columns) {
  const Values u = normal_vector(rng, rows, 1), v = normal_vector(rng, columns, 1);
  Values x;
  for (float row : u) {
    for (float column : v) x.push_back(row * column);
  }
  return x;
}

TEST(LowRank, BothEndsMoveByTheSameBitsInOppositeDirections) {
  TestRng rng(draw_rng_seed());
  for (const MatrixSize size : {MatrixSize{1, 1, 1}, {5, 3, 1}, {64, 33, 2}, {17, 200, 5}, {3, 4, 9}}) {
    const LowRank codec(size);
    for (int kind = 0; kind < 2; ++kind) {
      const auto draw = [&] {
        return kind == 0 ? normal_vector(rng, codec.element_count(), 1) : hostile_vector(rng, codec.element_count());
      };
      const Exchanged sent = exchange(codec, draw(), draw(), rng());
      Values a = delta(codec, sent.a, sent.b), b = delta(codec, sent.b, sent.a);
      for (float& value : a) value = 0.0f - value;   // both zeros are one
      for (float& value : b) value += 0.0f;
      EXPECT_EQ(bits_of(a), bits_of(b)) << size.rows << " x " << size.columns << " kind " << kind;
    }
  }
}

// Against the projection in double: y, the basis and z here are those of the formula.
TEST(LowRank, MovesByTheProjectionOfTheDifference) {
  TestRng rng(draw_rng_seed());
  const MatrixSize size{40, 60, 3};
  const LowRank codec(size);
  const Values a = normal_vector(rng, codec.element_count(), 1), b = normal_vector(rng, codec.element_count(), 1);
  const Exchanged sent = exchange(codec, a, b, rng());
  const Values moved = delta(codec, sent.a, sent.b), wanted = minus(b, a), rest = minus(wanted, moved);
  // A projection: what it takes and what it leaves are at right angles. binary16 rounds z by 2^-11 of some 6.
  EXPECT_NEAR(squares(moved) + squares(rest), squares(wanted), 2e-3 * squares(wanted));
  EXPECT_NEAR(codec.stats(sent.a.second, sent.b.second).squared_distance, squares(moved), 1e-5 * squares(moved));
  // With a random start 3 of 40 directions take 3/40 of a difference with no direction of its own; one step of the
  // power iteration takes more.
  EXPECT_GT(squares(moved), 3.0 / 40 * squares(wanted));
  EXPECT_LT(squares(moved), 0.4 * squares(wanted));
}

// One draw of q in a hundred hardly sees one of two directions, and binary16 rounds away the little that it sees. So
// the median of 21 draws is judged: eleven such draws do not happen.
TEST(LowRank, TakesAllOfADifferenceOfThatRank) {
  TestRng rng(draw_rng_seed());
  for (const size_t rank : {1u, 2u}) {
    const MatrixSize size{64, 100, 2};   // of rank 1: the second direction is what rounding left
    const LowRank codec(size);
    const Values a = normal_vector(rng, codec.element_count(), 0.1f);
    Values b = a;
    for (size_t k = 0; k < rank; ++k) {
      const Values part = outer(rng, size.rows, size.columns);
      for (size_t i = 0; i < b.size(); ++i) b[i] += part[i];
    }
    std::array<double, 21> left;
    for (double& share : left) {
      const Exchanged sent = exchange(codec, a, b, rng());
      share = squares(minus(minus(b, a), delta(codec, sent.a, sent.b))) / squares(minus(b, a));
    }
    std::sort(left.begin(), left.end());
    EXPECT_LT(left[10], 1e-5) << rank;
  }
}

// 64 values 1/64 apart: binary16 rounds by 2^-11, one rank at a time.
TEST(LowRank, MeetsAfterSomeExchanges) {
  TestRng rng(draw_rng_seed());
  const MatrixSize size{6, 8, 1};
  const LowRank codec(size);
  Values a = normal_vector(rng, codec.element_count(), 1), b = normal_vector(rng, codec.element_count(), 1);
  const double before = squares(minus(a, b));
  for (int round = 0; round < 60; ++round) {
    const Exchanged sent = exchange(codec, a, b, rng());
    codec.apply(0.5f, sent.a.both(), sent.b.both(), view(a));
    codec.apply(0.5f, sent.b.both(), sent.a.both(), view(b));
  }
  EXPECT_LT(squares(minus(a, b)), 1e-5 * before);
}

TEST(LowRank, EqualMatricesStay) {
  TestRng rng(draw_rng_seed());
  const LowRank codec({30, 20, 2});
  for (const Values& x : {Values(codec.element_count()), normal_vector(rng, codec.element_count(), 1)}) {
    const Exchanged sent = exchange(codec, x, x, rng());
    EXPECT_EQ(squares(delta(codec, sent.a, sent.b)), 0);
    EXPECT_EQ(codec.stats(sent.a.second, sent.b.second).squared_distance, 0);
  }
}

TEST(LowRank, ValuesBeyondItsRangeMoveByFiniteSteps) {
  const LowRank codec({4, 40, 1});
  const Values a(codec.element_count(), FLT_MAX), b(codec.element_count(), -FLT_MAX);
  const Exchanged sent = exchange(codec, a, b, 7);
  for (float value : delta(codec, sent.a, sent.b)) EXPECT_LT(std::abs(value), 4096);
}

TEST(LowRank, DamagedHalvesAreRefusedByTheirBytes) {
  const LowRank codec({3, 5, 2});
  EXPECT_EQ(codec.first_bytes(), 12u);
  EXPECT_EQ(codec.second_bytes(), 20u);
  std::vector<std::byte> half(codec.first_bytes());
  EXPECT_EQ(codec.check_first(half), PayloadStatus::kOk);
  EXPECT_EQ(codec.check_second(half), PayloadStatus::kWrongSize);
  for (size_t size = 0; size < half.size(); ++size) {
    EXPECT_EQ(codec.check_first(Bytes(half).first(size)), PayloadStatus::kWrongSize) << size;
  }
  half.push_back(std::byte{0});
  EXPECT_EQ(codec.check_first(half), PayloadStatus::kWrongSize);
  half.pop_back();
  half[11] = std::byte{0x7C};   // an infinity
  EXPECT_EQ(codec.check_first(half), PayloadStatus::kNonFinite);
  half[10] = std::byte{1};      // a NaN
  EXPECT_EQ(codec.check_first(half), PayloadStatus::kNonFinite);
}

// Whatever a peer sends that passes moves both sides by finite steps, at most as far as its second half says.
TEST(LowRank, WhateverPassesMovesByWhatItsStatsSay) {
  TestRng rng(draw_rng_seed());
  const LowRank codec({7, 9, 3});
  for (int run = 0; run < 200; ++run) {
    Halves halves[2];
    for (Halves& one : halves) {
      one = {random_bytes(rng, codec.first_bytes()), random_bytes(rng, codec.second_bytes())};
      for (std::vector<std::byte>* half : {&one.first, &one.second}) {
        for (size_t i = 1; i < half->size(); i += 2) (*half)[i] &= std::byte{0xBF};   // finite
      }
      if (run % 4 == 0) std::fill(one.first.begin() + 14, one.first.end(), one.first[3]);
      ASSERT_EQ(codec.check_first(one.first), PayloadStatus::kOk);
    }
    const double moved = squares(delta(codec, halves[0], halves[1]));
    const double told = codec.stats(halves[0].second, halves[1].second).squared_distance;
    EXPECT_TRUE(std::isfinite(moved));
    EXPECT_LE(moved, told * (1 + 1e-5)) << run;
  }
}

TEST(MakeOrthonormal, KeepsWhatIsIndependentAndDropsTheRest) {
  std::vector<double> vectors = {-3, 4, 0, 6, -8, 0, 0, 0, 0, 1, 1, -2};   // four in three dimensions
  make_orthonormal(vectors, 3);
  const std::vector<double> expected = {0.6, -0.8, 0, 0, 0, 0, 0, 0, 0};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(vectors[i], expected[i], 1e-15) << i;
  EXPECT_NEAR(vectors[9] * 0.6 - vectors[10] * 0.8, 0, 1e-15);
  EXPECT_NEAR(vectors[9] * vectors[9] + vectors[10] * vectors[10] + vectors[11] * vectors[11], 1, 1e-15);
  EXPECT_GT(vectors[9], 0);
}

TEST(LowRank, PaysWhereTwoHalvesAreSmaller) {
  EXPECT_TRUE(LowRank::pays({64, 784, 1}));
  EXPECT_TRUE(LowRank::pays({64, 784, 59}));
  EXPECT_FALSE(LowRank::pays({64, 784, 60}));
  EXPECT_FALSE(LowRank::pays({1, 784, 1}));
  EXPECT_FALSE(LowRank::pays({2, 2, 1}));
}

}  // namespace
}  // namespace starling
