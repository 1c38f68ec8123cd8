// What every codec must do, wherever the params lie. Instantiate with INSTANTIATE_TEST_SUITE_P over CodecCase.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "compression/codec.h"
#include "tests/kernels/inputs.h"

namespace starling {

// A vector of params in the space under test.
class ParamsHolder {
 public:
  virtual ~ParamsHolder() = default;
  virtual View view() = 0;
  virtual std::vector<float> values() = 0;
};

class HostParams final : public ParamsHolder {
 public:
  explicit HostParams(std::vector<float> values) : values_(std::move(values)) {}
  View view() override { return {values_.data(), values_.size(), MemorySpace::kHost}; }
  std::vector<float> values() override { return values_; }

 private:
  std::vector<float> values_;
};

struct CodecCase {
  std::string name;
  MemorySpace space;
  std::function<std::unique_ptr<Codec>()> make;
  std::function<std::unique_ptr<ParamsHolder>(std::vector<float>)> place;
  std::function<bool()> available = [] { return true; };
};

inline void PrintTo(const CodecCase& codec_case, std::ostream* out) {
  *out << codec_case.name << (codec_case.space == MemorySpace::kCuda ? " on a GPU" : "");
}

inline std::string case_name(const testing::TestParamInfo<CodecCase>& info) { return info.param.name; }

// One case for every codec there is: a new one is in all suites at once.
inline std::vector<CodecCase> every_codec(CodecCase (*make_case)(CodecKind)) {
  std::vector<CodecCase> cases;
  for (const CodecName& codec : codec_names()) cases.push_back(make_case(codec.kind));
  return cases;
}

using Payload = std::vector<std::byte>;

inline constexpr size_t kCodecSizes[] = {0, 1, 3, 17, 1000, 4099, 100001};

class CodecSuite : public testing::TestWithParam<CodecCase> {
 protected:
  void SetUp() override {
    if (!GetParam().available()) GTEST_SKIP() << "no GPU here: this codec's twin was compiled, not run";
    codec_ = GetParam().make();
  }

  bool is_modulo() const { return codec_->kind() == CodecKind::kModulo8 || codec_->kind() == CodecKind::kModulo4; }
  // The tests choose steps for modulo8; with 4 bits less, as many fit the same difference if they are 2^4 coarser.
  int coarser() const { return codec_->kind() == CodecKind::kModulo4 ? 4 : 0; }
  int exponent_gap_max() const { return codec_->kind() == CodecKind::kModulo4 ? 3 : 6; }

  // A block's memory; where steps are remembered, this one.
  std::unique_ptr<CodecMemory> memory(size_t count, std::optional<int> exponent = {}) {
    std::unique_ptr<CodecMemory> made = codec_->make_memory(count);
    if (!exponent || !is_modulo()) return made;
    const bool coarsens = *exponent > -100 && *exponent < 96;
    const auto saved = static_cast<std::byte>(*exponent + (coarsens ? coarser() : 0));
    EXPECT_TRUE(made->load({&saved, 1}));
    return made;
  }

  // nullopt where encode refuses.
  std::optional<Payload> try_encode(const std::vector<float>& x, CodecMemory* memory) {
    Payload payload(codec_->payload_bytes_max(x.size()));
    const auto params = GetParam().place(x);
    const std::optional<size_t> size = codec_->encode(params->view(), {.memory = memory}, payload);
    if (!size) return std::nullopt;
    EXPECT_LE(*size, payload.size());
    payload.resize(*size);
    return payload;
  }
  std::optional<Payload> try_encode(const std::vector<float>& x, std::optional<int> exponent = {}) {
    return try_encode(x, memory(x.size(), exponent).get());
  }
  Payload encode(const std::vector<float>& x, std::optional<int> exponent = {}) {
    std::optional<Payload> payload = try_encode(x, exponent);
    EXPECT_TRUE(payload.has_value()) << "encode refused finite values";
    return payload.value_or(Payload(codec_->payload_bytes_max(x.size())));
  }
  std::vector<float> apply(float coefficient, const Payload& own, const Payload& peer, std::vector<float> x) {
    const auto params = GetParam().place(std::move(x));
    codec_->apply(coefficient, own, peer, params->view());
    return params->values();
  }
  // How far peer - own of the payloads may be from the true difference of two values.
  double tolerance(const Payload& own, const Payload& peer, float a, float b) const {
    switch (codec_->kind()) {
      case CodecKind::kFp32: return 6e-8 * (std::fabs(double{a}) + std::fabs(double{b}));
      case CodecKind::kBf16: return 0x1p-8 * (std::fabs(double{a}) + std::fabs(double{b}));
      case CodecKind::kFp16: return 0x1p-11 * (std::fabs(double{a}) + std::fabs(double{b})) + 0x1p-24;
      case CodecKind::kModulo8:
      case CodecKind::kModulo4:
        return 0.5001 * (std::ldexp(1.0, static_cast<int8_t>(own[0])) + std::ldexp(1.0, static_cast<int8_t>(peer[0])));
      default: return std::fabs(double{a}) + std::fabs(double{b});  // what a codec may drop at most
    }
  }

  // Blocks of all sizes with no term to three, with steps that fit, must change or are not known, and one that refuses:
  // what a pass makes of them is what the host's loops make of each.
  void expect_pass_as_one_by_one();

  std::unique_ptr<Codec> codec_;
};

inline void CodecSuite::expect_pass_as_one_by_one() {
  struct One {
    std::vector<float> x;
    std::vector<Payload> own, peer;
    std::vector<CodecTerm> terms;
    std::unique_ptr<CodecMemory> memory;
    std::unique_ptr<ParamsHolder> params;
    Payload out;
    Payload expected;
    std::optional<size_t> expected_size;
    std::vector<std::byte> expected_memory;
  };
  TestRng rng(draw_rng_seed());
  const bool on_host = GetParam().space == MemorySpace::kHost;  // maybe of a kind that tests alone know
  const std::unique_ptr<Codec> host = on_host ? GetParam().make() : make_codec(codec_->kind(), MemorySpace::kHost);
  const int exponents[] = {-128, -5, -60, 100};  // not known, fits, must be raised, must be lowered
  std::vector<One> ones(2 * std::size(kCodecSizes));
  for (size_t i = 0; i < ones.size(); ++i) {
    One& one = ones[i];
    const size_t count = kCodecSizes[i % std::size(kCodecSizes)];
    one.x = normal_vector(rng, count, 1.0f);
    if (count > 0) one.x[0] = 1.5f;
    if (i == 4) one.x.back() = INFINITY;
    for (size_t term = 0; term < (i == 4 ? 0 : i % 4); ++term) {
      for (std::vector<Payload>* payloads : {&one.own, &one.peer}) {
        std::vector<float> values = normal_vector(rng, count, 1.0f);
        if (count > 0) values[0] = 1.5f;  // large enough for these steps
        Payload& payload = payloads->emplace_back(host->payload_bytes_max(count));
        const std::unique_ptr<CodecMemory> step = memory(count, payloads == &one.own ? -5 : -4);
        const auto size = host->encode({values.data(), count, MemorySpace::kHost}, {.memory = step.get()}, payload);
        ASSERT_TRUE(size);
        payload.resize(*size);
      }
    }
    for (size_t term = 0; term < one.own.size(); ++term) {
      one.terms.push_back({0.25f + static_cast<float>(term), one.own[term], one.peer[term]});
    }
    one.params = GetParam().place(one.x);
    one.out.resize(codec_->payload_bytes_max(count));
    one.expected.resize(one.out.size());
    one.memory = memory(count, exponents[i % 4]);
    const std::unique_ptr<CodecMemory> remembered = memory(count, exponents[i % 4]);
    const View x{one.x.data(), count, MemorySpace::kHost};
    for (const CodecTerm& term : one.terms) host->apply(term.coefficient, term.own, term.peer, x);
    one.expected_size = host->encode(x, {.memory = remembered.get()}, one.expected);
    if (remembered) one.expected_memory = remembered->save();
  }
  std::vector<BlockPass> passes;
  for (One& one : ones) {
    const EncodeContext context{.memory = one.memory.get()};
    passes.push_back({.x = one.params->view(), .terms = one.terms, .context = context, .out = one.out});
  }
  codec_->pass(passes);
  for (size_t i = 0; i < ones.size(); ++i) {
    EXPECT_EQ(bits_of(ones[i].params->values()), bits_of(ones[i].x)) << i;
    ASSERT_EQ(passes[i].size, ones[i].expected_size) << i;
    if (const auto size = ones[i].expected_size) {
      const auto written = [&](const Payload& payload) { return Payload(payload.begin(), payload.begin() + *size); };
      EXPECT_EQ(written(ones[i].out), written(ones[i].expected)) << i;
    }
    if (ones[i].memory) {
      EXPECT_EQ(ones[i].memory->save(), ones[i].expected_memory) << i;
    }
  }
  EXPECT_EQ(passes[4].size, std::nullopt);
}

TEST_P(CodecSuite, APassGivesWhatItsBlocksGiveOneByOne) { expect_pass_as_one_by_one(); }

TEST_P(CodecSuite, TheDeltaIsTheDifferenceWithinTheCodecsError) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kCodecSizes) {
    std::vector<float> a = normal_vector(rng, count, 1.0f);
    std::vector<float> b = normal_vector(rng, count, 0.2f);
    if (count > 0) a[0] = 1.5f;  // large enough for these steps
    for (size_t i = 0; i < count; ++i) b[i] += a[i];
    const Payload own = encode(a, -5);
    const Payload peer = encode(b, -6);
    ASSERT_EQ(codec_->check(own, count), PayloadStatus::kOk);
    ASSERT_EQ(codec_->check(peer, count), PayloadStatus::kOk);
    PairStats stats;
    ASSERT_EQ(codec_->pair(own, peer, count, &stats), PairStatus::kOk) << count;
    if (stats.squared_distance == 0) {  // no delta is applied
      for (size_t i = 0; i < count; ++i) EXPECT_NEAR(b[i], a[i], 2 * tolerance(own, peer, a[i], b[i])) << i;
      continue;
    }
    const std::vector<float> delta = apply(1.0f, own, peer, std::vector<float>(count, 0.0f));
    double squares = 0;
    float largest = 0;
    for (size_t i = 0; i < count; ++i) {
      EXPECT_NEAR(delta[i], double{b[i]} - a[i], tolerance(own, peer, a[i], b[i])) << i << " of " << count;
      squares += double{delta[i]} * delta[i];
      largest = std::max(largest, std::fabs(delta[i]));
    }
    EXPECT_NEAR(stats.squared_distance, squares, 1e-12 * squares) << "stats speak of what is applied";
    EXPECT_EQ(stats.max_abs_difference, largest);
  }
}

TEST_P(CodecSuite, BothSidesApplyTheSameBitsWithOppositeSigns) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kCodecSizes) {
    const std::vector<float> zero(count, 0.0f);
    const Payload a = encode(normal_vector(rng, count, 1.0f));
    const Payload b = encode(normal_vector(rng, count, 1.3f));
    PairStats stats;
    if (codec_->pair(a, b, count, &stats) != PairStatus::kOk) continue;
    const float coefficient = normal_vector(rng, 1, 0.5f)[0];
    std::vector<float> expected = apply(coefficient, b, a, zero);
    for (float& value : expected) value = 0.0f - value;
    EXPECT_EQ(bits_of(apply(coefficient, a, b, zero)), bits_of(expected)) << count;
    EXPECT_EQ(bits_of(apply(-coefficient, b, a, zero)), bits_of(apply(coefficient, a, b, zero))) << count;
  }
}

TEST_P(CodecSuite, SumsOnAnIntegerGridAreConservedExactly) {
  TestRng rng(draw_rng_seed());
  const size_t count = 5000;
  std::vector<float> a(count), b(count);
  for (size_t i = 0; i < count; ++i) {  // small enough that no sum or product rounds, in bf16 too
    a[i] = static_cast<float>(static_cast<int>(rng() % 201) - 100) / 64;
    b[i] = static_cast<float>(static_cast<int>(rng() % 201) - 100) / 64;
  }
  size_t moved = 0;
  for (int round = 0; round < 6; ++round) {
    const Payload own = encode(a, -5);
    const Payload peer = encode(b, -4);
    PairStats stats;
    ASSERT_EQ(codec_->pair(own, peer, count, &stats), PairStatus::kOk);
    const std::vector<float> next_a = apply(0.25f, own, peer, a);
    const std::vector<float> next_b = apply(0.25f, peer, own, b);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(double{next_a[i]} + next_b[i], double{a[i]} + b[i]) << i << " in round " << round;
      moved += next_a[i] != a[i];
    }
    a = next_a;
    b = next_b;
  }
  EXPECT_GT(moved, count) << "the deltas were empty";
}

TEST_P(CodecSuite, TheVerdictIsTheSameOnBothEnds) {
  TestRng rng(draw_rng_seed());
  int fitted = 0, wrapped = 0, apart = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const size_t count = rng() % 200;
    const float deviation = std::ldexp(1.0f, static_cast<int>(rng() % 8));
    const int exponent_a = static_cast<int>(rng() % 12) - 10, exponent_b = static_cast<int>(rng() % 12) - 10;
    const Payload a = encode(normal_vector(rng, count, 1.0f), exponent_a);
    const Payload b = encode(normal_vector(rng, count, deviation), exponent_b);
    PairStats ours, theirs;
    const PairStatus status = codec_->pair(a, b, count, &ours);
    ASSERT_EQ(codec_->pair(b, a, count, &theirs), status);
    const bool near = !is_modulo() || std::abs(exponent_a - exponent_b) <= exponent_gap_max();
    ++(status == PairStatus::kOk ? fitted : near ? wrapped : apart);
    if (status != PairStatus::kOk) continue;
    EXPECT_EQ(ours.squared_distance, theirs.squared_distance);
    EXPECT_EQ(ours.max_abs_difference, theirs.max_abs_difference);
  }
  EXPECT_GT(fitted, 0);
  if (is_modulo()) {
    EXPECT_GT(wrapped, 0) << "no pair wrapped: the trials are too tame";
    EXPECT_GT(apart, 0) << "no steps apart: the trials are too tame";
  }
}

TEST_P(CodecSuite, NonfiniteParamsAreNeverEncoded) {
  TestRng rng(draw_rng_seed());
  for (size_t count : {size_t{1}, size_t{3}, size_t{70}}) {
    for (float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
      for (size_t at = 0; at < count; ++at) {
        std::vector<float> x = normal_vector(rng, count, 1.0f);
        x[at] = bad;
        EXPECT_FALSE(try_encode(x).has_value()) << bad << " at " << at << " of " << count;
        EXPECT_FALSE(try_encode(x, -7).has_value()) << bad << " at " << at;
      }
    }
  }
}

TEST_P(CodecSuite, EveryFiniteVectorEncodesAndAgreesWithItself) {
  TestRng rng(draw_rng_seed());
  for (size_t count : kCodecSizes) {
    for (int exponent : {-128, -100, -9, 100}) {  // -128: none
      const std::vector<float> x = hostile_vector(rng, count);
      const Payload payload = encode(x, exponent);
      EXPECT_EQ(codec_->check(payload, count), PayloadStatus::kOk);
      if (codec_->linear()) {  // the exchanges that average payloads give no lessons
        EXPECT_EQ(payload.size(), codec_->payload_bytes_max(count));
        EXPECT_EQ(codec_->learnable_bytes(payload.size()), 0u);
      }
      PairStats stats;
      ASSERT_EQ(codec_->pair(payload, payload, count, &stats), PairStatus::kOk);
      EXPECT_EQ(stats.squared_distance, 0);
      EXPECT_EQ(stats.max_abs_difference, 0);
      EXPECT_EQ(apply(0.5f, payload, payload, x), x);
    }
  }
}

TEST_P(CodecSuite, EveryOtherSizeIsRefused) {
  TestRng rng(draw_rng_seed());
  for (size_t count : {size_t{0}, size_t{1}, size_t{3}, size_t{17}}) {
    const Payload good = encode(normal_vector(rng, count, 1.0f));
    for (size_t bytes = 0; bytes < good.size() + 12; ++bytes) {
      Payload other = good;
      other.resize(bytes);
      const PayloadStatus expected = bytes == good.size() ? PayloadStatus::kOk : PayloadStatus::kWrongSize;
      EXPECT_EQ(codec_->check(other, count), expected) << bytes << " bytes for " << count;
    }
  }
}

// A flipped bit is refused, or it is a legal payload: then both ends still agree on the verdict and the delta.
TEST_P(CodecSuite, AFlippedBitNeverCrashesAndNeverPartsTheEnds) {
  TestRng rng(draw_rng_seed());
  const size_t count = 37;
  const std::vector<float> x = normal_vector(rng, count, 1.0f);
  const std::vector<float> zero(count, 0.0f);
  const Payload own = encode(x);
  const Payload peer = encode(x);
  for (size_t bit = 0; bit < peer.size() * 8; ++bit) {
    Payload damaged = peer;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    if (codec_->check(damaged, count) != PayloadStatus::kOk) continue;
    PairStats stats;
    const std::unique_ptr<CodecMemory> remembered = memory(count);
    const PairStatus status = codec_->pair(own, damaged, count, &stats);
    EXPECT_EQ(codec_->pair(damaged, own, count, &stats), status);
    if (remembered) codec_->learn({status, stats, own, damaged}, remembered.get());
    (void)try_encode(x, remembered.get());
    if (status != PairStatus::kOk) continue;
    std::vector<float> expected = apply(0.5f, damaged, own, zero);
    for (float& value : expected) value = 0.0f - value;
    EXPECT_EQ(bits_of(apply(0.5f, own, damaged, zero)), bits_of(expected)) << "bit " << bit;
  }
}

TEST_P(CodecSuite, RandomBytesAreRefusedOrHarmless) {
  TestRng rng(draw_rng_seed());
  for (int trial = 0; trial < 500; ++trial) {
    const size_t count = rng() % 40;
    const Payload own = encode(normal_vector(rng, count, 1.0f));
    Payload noise = random_bytes(rng, own.size());
    if (is_modulo() && trial % 2 == 0) {
      std::fill(noise.begin(), noise.begin() + 8, std::byte{0});  // a legal header, so that more gets through
      noise[0] = own[0];
    }
    if (codec_->check(noise, count) != PayloadStatus::kOk) continue;
    PairStats stats;
    if (codec_->pair(own, noise, count, &stats) != PairStatus::kOk) continue;
    EXPECT_TRUE(std::isfinite(stats.max_abs_difference));
    EXPECT_TRUE(std::isfinite(stats.squared_distance));
    for (float value : apply(0.5f, own, noise, std::vector<float>(count))) EXPECT_TRUE(std::isfinite(value));
  }
}

}  // namespace starling
