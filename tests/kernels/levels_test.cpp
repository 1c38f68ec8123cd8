#include "kernels/levels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "kernels/vector_ops.h"
#include "tests/kernels/fills.h"
#include "tests/kernels/targets.h"

namespace starling {
namespace {

constexpr LevelCodes kCodes[] = {{1, 1}, {2, 1}, {4, 1}, {4, 5}, {4, 7}, {8, 7}, {8, 127}};
constexpr size_t kSizes[] = {0, 1, 3, 63, 64, 65, 127, 129, 511, 512, 513, 1000, 5001};

std::vector<std::byte> encoded(const LevelCodes& codes, const std::vector<float>& x, float inverse, uint64_t seed,
                               size_t first = 0) {
  std::vector<std::byte> out(codes.bytes(x.size()) + 1, std::byte{0xA5});
  levels_encode(codes, x.data(), x.size(), inverse, seed, first, out.data());
  EXPECT_EQ(out.back(), std::byte{0xA5}) << "a byte beyond the end was written";
  out.pop_back();
  return out;
}

bool finite(Fill fill) { return fill != Fill::kNan && fill != Fill::kInfinity; }

TEST(Levels, BytesHoldEveryElementAndNoMore) {
  EXPECT_EQ((LevelCodes{8, 127}.bytes(1000)), 1000u);
  EXPECT_EQ((LevelCodes{4, 7}.bytes(128)), 64u);
  EXPECT_EQ((LevelCodes{4, 7}.bytes(129)), 65u);
  EXPECT_EQ((LevelCodes{4, 7}.bytes(200)), 128u);
  EXPECT_EQ((LevelCodes{2, 1}.bytes(256)), 64u);
  EXPECT_EQ((LevelCodes{1, 1}.bytes(512)), 64u);
  EXPECT_EQ((LevelCodes{1, 1}.bytes(513)), 65u);
  EXPECT_EQ((LevelCodes{1, 1}.bytes(3)), 3u);
}

// The whole number below or above, in double; with one bit the sign.
TEST(Levels, EachLevelIsNextToItsElement) {
  TestRng rng(draw_rng_seed());
  for (const FilledSize& input : filled_sizes()) {
    if (!finite(input.fill)) continue;
    const std::vector<float> x = filled_vector(rng, input.fill, input.count);
    for (const LevelCodes& codes : kCodes) {
      for (const float inverse : {0.0f, 1e-30f, 0.9f, 100.0f}) {
        const std::vector<std::byte> bytes = encoded(codes, x, inverse, rng());
        ASSERT_TRUE(levels_valid(codes, bytes.data(), x.size())) << input.name << ", " << codes.bits << " bits";
        for (size_t i = 0; i < x.size(); ++i) {
          const int level = level_of(codes, bytes.data(), i);
          if (codes.bits == 1) {
            ASSERT_TRUE(x[i] == 0 || (level > 0) == (x[i] > 0)) << x[i];
            continue;
          }
          const double most = codes.levels;
          const double scaled = std::clamp(static_cast<double>(x[i]) * static_cast<double>(inverse), -most, most);
          ASSERT_LE(std::fabs(level - scaled), 1 + 1e-4) << input.name << ", " << codes.bits << " bits, " << x[i];
          ASSERT_LE(std::abs(level), codes.levels);
        }
      }
    }
  }
}

// A whole number stays what it is; half way both neighbors come equally often.
TEST(Levels, RoundingIsUnbiased) {
  TestRng rng(draw_rng_seed());
  constexpr size_t kCount = 200'000;
  for (const LevelCodes& codes : kCodes) {
    if (codes.bits == 1) continue;
    for (const double value : {-1.0, -0.75, -0.5, -0.1, 0.0, 0.3, 0.5, 0.999, 1.0}) {
      const std::vector<float> x(kCount, static_cast<float>(value));
      const std::vector<std::byte> bytes = encoded(codes, x, 1, rng());
      double sum = 0;
      for (size_t i = 0; i < kCount; ++i) sum += level_of(codes, bytes.data(), i);
      const double exact = static_cast<double>(static_cast<float>(value)), part = exact - std::floor(exact);
      // Six standard deviations. A float sum of a whole number and a chance just below 1 may round up: one in 2^24.
      EXPECT_NEAR(sum / kCount, exact, 6 * std::sqrt(part * (1 - part) / kCount) + 4.5 / kCount) << codes.levels;
    }
  }
}

TEST(Levels, ZerosGetEitherSign) {
  const std::vector<std::byte> bytes = encoded({1, 1}, std::vector<float>(100'000), 1, 5);
  double sum = 0;
  for (size_t i = 0; i < 100'000; ++i) sum += level_of({1, 1}, bytes.data(), i);
  EXPECT_NEAR(sum / 100'000, 0, 6 / std::sqrt(100'000.0));
}

TEST(Levels, ChanceFollowsSeedAndPosition) {
  TestRng rng(draw_rng_seed());
  const std::vector<float> x = normal_vector(rng, 2048, 1.0f), second(x.begin() + 1024, x.end());
  const std::vector<std::byte> whole = encoded({8, 127}, x, 30, 7), rest = encoded({8, 127}, second, 30, 7, 1024);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.begin() + 1024));
  EXPECT_EQ(whole, encoded({8, 127}, x, 30, 7));
  EXPECT_NE(whole, encoded({8, 127}, x, 30, 8));
  EXPECT_NE(rest, encoded({8, 127}, second, 30, 7));
}

// Two elements take their chances from one hash: neither from the same bits, nor from bits that go together.
TEST(Levels, ChancesOfAPairAreIndependent) {
  for (const LevelCodes& codes : kCodes) {
    if (codes.bits == 1) continue;
    constexpr size_t kCount = 512 * 400;
    const std::vector<std::byte> bytes = encoded(codes, std::vector<float>(kCount, 0.5f), 1, 3);
    for (const size_t apart : {size_t{1}, size_t{16}, size_t{32}, size_t{64}, size_t{128}}) {
      double sum = 0;
      for (size_t i = 0; i < kCount; ++i) {
        sum += (level_of(codes, bytes.data(), i) == 1) == (level_of(codes, bytes.data(), i ^ apart) == 1) ? 1 : -1;
      }
      EXPECT_NEAR(sum / kCount, 0, 6 * std::sqrt(2.0 / kCount)) << apart << ", " << codes.bits << " bits";
    }
  }
}

// What is left of a group is encoded element by element, with the same chances.
TEST(Levels, ATailIsEncodedAsInAWholeGroup) {
  TestRng rng(draw_rng_seed());
  const std::vector<float> x = normal_vector(rng, 1024, 1.0f);
  for (const LevelCodes& codes : kCodes) {
    const std::vector<std::byte> whole = encoded(codes, x, 1, 7);
    for (const size_t count : {size_t{1}, size_t{40}, size_t{999}, size_t{1023}}) {
      const std::vector<std::byte> part = encoded(codes, {x.begin(), x.begin() + static_cast<ptrdiff_t>(count)}, 1, 7);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(level_of(codes, part.data(), i), level_of(codes, whole.data(), i)) << i << " of " << count;
      }
    }
  }
}

TEST(Levels, DecodesAndAddsWhatTheLevelsSay) {
  TestRng rng(draw_rng_seed());
  for (const LevelCodes& codes : kCodes) {
    for (const size_t count : kSizes) {
      const std::vector<std::byte> bytes = encoded(codes, normal_vector(rng, count, 2.0f), 1, rng());
      const float scale = 0.37f, a = -1.7f;
      const std::vector<float> y = hostile_vector(rng, count);
      std::vector<float> values(count), added = y, expected(count), expected_added = y;
      levels_decode(codes, bytes.data(), count, scale, values.data());
      levels_axpy(codes, a, bytes.data(), count, scale, added.data());
      for (size_t i = 0; i < count; ++i) {
        expected[i] = scale * static_cast<float>(level_of(codes, bytes.data(), i));
        const volatile float product = a * expected[i];  // volatile: rounded before the addition
        expected_added[i] += product;
      }
      EXPECT_EQ(bits_of(values), bits_of(expected)) << codes.bits << " bits, " << count;
      EXPECT_EQ(bits_of(added), bits_of(expected_added)) << codes.bits << " bits, " << count;
    }
  }
}

// By hand, term after term and from zero, whatever was there before; no terms are zeros.
TEST(Levels, AMergeAddsTermAfterTermFromZero) {
  TestRng rng(draw_rng_seed());
  for (const LevelCodes& codes : kCodes) {
    for (const size_t count : kSizes) {
      for (const size_t block : {codes.group_elements(), 4 * codes.group_elements(), std::max<size_t>(count, 1)}) {
        const size_t blocks = (count + block - 1) / block;
        std::vector<std::vector<float>> scales(9, std::vector<float>(blocks));
        std::vector<std::vector<std::byte>> bytes(9, std::vector<std::byte>(blocks * codes.bytes(block)));
        std::vector<LevelTerm> terms;
        std::vector<float> expected(count);
        for (size_t t = 0; t <= 9; ++t) {
          for_each_target([&] {
            std::vector<float> sum(count + 1, 7.0f);
            levels_merge(codes, block, terms, sum.data(), count);
            EXPECT_EQ(sum.back(), 7.0f) << "a float beyond the end was written";
            sum.pop_back();
            EXPECT_EQ(bits_but_nan(sum), bits_but_nan(expected))
                << codes.bits << " bits, " << t << " terms, " << count << " in blocks of " << block;
          });
          if (t == 9) break;
          for (size_t b = 0; b < blocks; ++b) {
            const size_t length = std::min(block, count - b * block);
            const auto drawn = b % 5 == 3 ? hostile_vector(rng, 1) : normal_vector(rng, 1, 1.0f);
            scales[t][b] = b % 5 == 4 ? 0.0f : std::fabs(drawn[0]);  // large ones end in infinities and NaN
            std::byte* const to = bytes[t].data() + b * codes.bytes(block);
            levels_encode(codes, normal_vector(rng, length, 2.0f).data(), length, 1, rng(), 0, to);
          }
          const float weight = normal_vector(rng, 1, 1.0f)[0];
          terms.push_back({weight, std::as_bytes(std::span(scales[t])).data(), bytes[t].data()});
          for (size_t i = 0; i < count; ++i) {
            const int level = level_of(codes, bytes[t].data() + i / block * codes.bytes(block), i % block);
            const volatile float value = scales[t][i / block] * static_cast<float>(level);
            const volatile float product = weight * value;  // volatile: rounded before the addition
            expected[i] += product;
          }
        }
      }
    }
  }
}

TEST(Levels, CodesWithoutALevelAreNotValid) {
  for (const LevelCodes& codes : kCodes) {
    for (const size_t count : kSizes) {
      const std::vector<std::byte> good = encoded(codes, std::vector<float>(count, 1.0f), 1, 1);
      ASSERT_TRUE(levels_valid(codes, good.data(), count));
      const size_t group = codes.group_elements();
      for (size_t byte = 0; byte < good.size(); ++byte) {
        for (int slot = 0; slot < 8 / codes.bits; ++slot) {
          for (int code = 0; code < 1 << codes.bits; ++code) {
            std::vector<std::byte> changed = good;
            const int shift = slot * codes.bits;
            const auto mask = static_cast<std::byte>(((1 << codes.bits) - 1) << shift);
            changed[byte] = (changed[byte] & ~mask) | static_cast<std::byte>(code << shift);
            const bool there = byte / 64 * group + byte % 64 + static_cast<size_t>(slot) * 64 < count;
            const bool level = there ? codes.bits == 1 || code <= 2 * codes.levels : code == 0;
            ASSERT_EQ(levels_valid(codes, changed.data(), count), level) << codes.bits << " bits, byte " << byte;
          }
        }
        if (codes.bits == 8 && byte > 70) break;
      }
      if (count > 600) break;
    }
  }
}

TEST(Levels, SignsTakeTheSizeAndZerosStay) {
  TestRng rng(draw_rng_seed());
  for (const FilledSize& input : filled_sizes()) {
    if (input.fill == Fill::kNan) continue;
    const std::vector<float> x = filled_vector(rng, input.fill, input.count);
    for (const float size : {0.3f, 0.0f, 0x1p120f}) {
      std::vector<float> expected(x.size());
      for (size_t i = 0; i < x.size(); ++i) expected[i] = x[i] > 0 ? size : x[i] < 0 ? -size : 0.0f;
      for_each_target([&] {
        std::vector<float> values = x;
        take_signs(size, values.data(), values.size());
        EXPECT_EQ(bits_of(values), bits_of(expected)) << input.name << ", " << size;
      });
    }
  }
}

TEST(Levels, SumsMagnitudes) {
  TestRng rng(draw_rng_seed());
  for (const FilledSize& input : filled_sizes()) {
    if (!finite(input.fill)) continue;
    const std::vector<float> x = filled_vector(rng, input.fill, input.count);
    long double exact = 0;
    for (float value : x) exact += static_cast<long double>(std::fabs(value));
    const auto expected = static_cast<double>(exact);
    EXPECT_NEAR(sum_abs(x.data(), x.size()), expected, 1e-12 * expected) << input.name;
  }
}

// Blocks of every length, the last one shorter or not: the bits of the norm of what is decoded.
TEST(Levels, TheSquaredNormIsThatOfTheDecoded) {
  TestRng rng(draw_rng_seed());
  for (const FilledSize& input : filled_sizes()) {
    if (!finite(input.fill)) continue;
    const std::vector<float> x = filled_vector(rng, input.fill, input.count);
    for (const LevelCodes& codes : kCodes) {
      for (const size_t block : {codes.group_elements(), 4 * codes.group_elements(), std::max<size_t>(x.size(), 1)}) {
        const size_t blocks = (x.size() + block - 1) / block;
        std::vector<float> scales(blocks), values(x.size());
        std::vector<std::byte> bytes(blocks * codes.bytes(block) + 1);
        for (size_t b = 0; b < blocks; ++b) {
          const size_t at = b * block, length = std::min(block, x.size() - at);
          std::byte* const to = bytes.data() + b * codes.bytes(block);
          scales[b] = b % 5 == 4 ? 0.0f : std::fabs(normal_vector(rng, 1, 1.0f)[0]);
          levels_encode(codes, x.data() + at, length, 0.7f, rng(), at, to);
          levels_decode(codes, to, length, scales[b], values.data() + at);
        }
        const auto run = [&] {
          const double norm =
              levels_squared_norm(codes, bytes.data(), x.size(), block, std::as_bytes(std::span(scales)).data());
          EXPECT_EQ(std::bit_cast<uint64_t>(norm), std::bit_cast<uint64_t>(squared_norm(values.data(), x.size())))
              << input.name << ", " << codes.bits << " bits, blocks of " << block;
        };
        for_each_target(run);
      }
    }
  }
}

TEST(Levels, SameBitsOnEveryInstructionSet) {
  TestRng rng(draw_rng_seed());
  for (const FilledSize& input : filled_sizes()) {
    if (!finite(input.fill)) continue;
    const std::vector<float> x = filled_vector(rng, input.fill, input.count);
    const uint64_t seed = rng();
    const auto run = [&] {
      std::vector<std::vector<uint32_t>> results;
      for (const LevelCodes& codes : kCodes) {
        std::vector<float> values(x.size()), sum = x;
        const std::vector<std::byte> bytes = encoded(codes, x, 0.7f, seed);
        levels_decode(codes, bytes.data(), x.size(), 0.3f, values.data());
        levels_axpy(codes, 0.3f, bytes.data(), x.size(), 0.7f, sum.data());
        results.push_back(bits_of(values));
        results.push_back(bits_of(sum));
        results.push_back({levels_valid(codes, bytes.data(), x.size())});
      }
      results.push_back({static_cast<uint32_t>(std::bit_cast<uint64_t>(sum_abs(x.data(), x.size())) >> 8)});
      return results;
    };
    const auto expected = run();
    for_each_target([&] { EXPECT_EQ(run(), expected) << input.name; });
  }
}

}  // namespace
}  // namespace starling
