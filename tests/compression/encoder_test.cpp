#include "compression/encoder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compression/modulo_format.h"
#include "compression/modulo_step.h"
#include "tests/compression/encode_block.h"
#include "tests/kernels/inputs.h"

namespace starling {
namespace {

using Payload = std::vector<std::byte>;

// Two sections, "params" of 10 values and "momentum" of 6, in blocks of 4.
struct Shared {
  explicit Shared(CodecKind kind = CodecKind::kModulo8)
      : encoder(make_codec(kind, MemorySpace::kHost), Layout::cut({{"params", 10}, {"momentum", 6}}, 4)) {
    for (size_t i = 0; i < 10; ++i) params[i] = std::ldexp(1.0f + static_cast<float>(i), -3);
    for (size_t i = 0; i < 6; ++i) momentum[i] = std::ldexp(1.0f, -9);
  }
  std::vector<Payload> snapshot() {
    encoder.begin_snapshot({view(params), view(momentum)});
    std::vector<Payload> payloads;
    for (size_t k = 0; k < encoder.layout().blocks.size(); ++k) {
      const Block& block = encoder.layout().blocks[k];
      Payload payload(encoder.payload_bytes_max(k));
      std::vector<float>& section = block.section == 0 ? params : momentum;
      const auto size = encode_block(encoder, k, {section.data() + block.offset, block.element_count}, payload);
      EXPECT_TRUE(size.has_value());
      payload.resize(size.value_or(0));
      payloads.push_back(payload);
    }
    return payloads;
  }
  static ConstView view(const std::vector<float>& x) { return {x.data(), x.size(), MemorySpace::kHost}; }

  std::vector<float> params = std::vector<float>(10), momentum = std::vector<float>(6);
  Encoder encoder;
};

int exponent_of(const Payload& payload) { return modulo_format::read_header(payload).exponent; }

std::vector<int> exponents(const std::vector<Payload>& payloads) {
  std::vector<int> all;
  for (const Payload& payload : payloads) all.push_back(exponent_of(payload));
  return all;
}

TEST(Encoder, WritesWhatTheCodecWrites) {
  for (const CodecName& codec : codec_names()) {
    Shared shared(codec.kind);
    const std::vector<Payload> payloads = shared.snapshot();
    ASSERT_EQ(payloads.size(), 5u);
    Payload expected(shared.encoder.codec().payload_bytes_max(4));
    ASSERT_TRUE(shared.encoder.codec().encode({shared.params.data() + 4, 4}, {}, expected));
    EXPECT_EQ(payloads[1], expected) << codec.name;
  }
}

TEST(Encoder, LearnsEachBlockByItself) {
  Shared shared;
  const std::vector<Payload> first = shared.snapshot();
  shared.encoder.learn(1, {PairStatus::kLeftOut, {}, first[1], first[1]});
  shared.encoder.learn(4, {PairStatus::kOk, {}, first[4], first[4]});
  std::vector<int> expected = exponents(first);
  expected[1] += kModuloSteps<8>.rise;
  --expected[4];
  EXPECT_EQ(exponents(shared.snapshot()), expected);
}

TEST(Encoder, WhatIsSavedIsLoaded) {
  Shared shared, other;
  const std::vector<Payload> first = shared.snapshot();
  for (size_t k : {0, 2, 3}) shared.encoder.learn(k, {PairStatus::kLeftOut, {}, first[k], first[k]});
  const std::vector<std::byte> saved = shared.encoder.save();
  ASSERT_TRUE(other.encoder.load(saved));
  EXPECT_EQ(other.encoder.save(), saved);
  EXPECT_EQ(other.snapshot(), shared.snapshot());
  EXPECT_TRUE(other.encoder.load({})) << "an agent that shared nothing saved nothing";
}

TEST(Encoder, SavesNothingWhereTheCodecRemembersNothing) {
  Shared fp32(CodecKind::kFp32);
  (void)fp32.snapshot();
  EXPECT_TRUE(fp32.encoder.save().empty());
  EXPECT_TRUE(fp32.encoder.load(std::vector<std::byte>(5, std::byte{0x80}))) << "as older checkpoints hold it";
}

TEST(Encoder, ReadsOneByteABlock) {
  Shared shared, fresh;
  const int remembered[] = {-5, -128, -7, -14, -128};  // -128: nothing yet
  std::vector<std::byte> old;
  for (int exponent : remembered) old.push_back(static_cast<std::byte>(exponent));
  ASSERT_TRUE(shared.encoder.load(old));
  const std::vector<int> first = exponents(fresh.snapshot()), now = exponents(shared.snapshot());
  for (size_t k = 0; k < 5; ++k) EXPECT_EQ(now[k], remembered[k] == -128 ? first[k] : remembered[k]) << k;
  old.pop_back();
  EXPECT_FALSE(shared.encoder.load(old)) << "of another layout";
}

TEST(Encoder, DamagedMemoryIsRefusedWhole) {
  Shared shared;
  const std::vector<Payload> first = shared.snapshot();
  for (size_t k = 0; k < 5; ++k) shared.encoder.learn(k, {PairStatus::kOk, {}, first[k], first[k]});
  const std::vector<std::byte> saved = shared.encoder.save();
  for (size_t size = 1; size < saved.size(); ++size) {
    EXPECT_FALSE(shared.encoder.load(Bytes(saved).first(size))) << size;
  }
  size_t refused = 0;
  for (size_t bit = 0; bit < saved.size() * 8; ++bit) {
    std::vector<std::byte> damaged = saved;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    ASSERT_TRUE(shared.encoder.load(saved));
    const bool loaded = shared.encoder.load(damaged);
    refused += !loaded;
    EXPECT_EQ(shared.encoder.save(), loaded ? damaged : saved) << bit;
  }
  EXPECT_GE(refused, saved.size() * 8 - 5 * 8) << "only the exponents themselves may be taken for others";
  std::vector<std::byte> longer = saved;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(shared.encoder.load(longer));
}

TEST(Encoder, ABlockOfZerosTakesTheScaleOfItsSection) {
  Shared shared;
  std::fill_n(shared.params.begin(), 4, 0.0f);
  double squares = 0;
  for (float x : shared.params) squares += double{x} * x;
  const int of_rms = static_cast<int>(std::ceil(std::log2(std::sqrt(squares / 10)))) - 6;
  EXPECT_EQ(exponent_of(shared.snapshot()[0]), of_rms);

  // A section of zeros has no scale, until it has values.
  std::fill(shared.momentum.begin(), shared.momentum.end(), 0.0f);
  EXPECT_EQ(exponent_of(shared.snapshot()[3]), -10);
  shared.momentum[5] = 8;
  EXPECT_EQ(exponent_of(shared.snapshot()[3]), 2 - 6) << "rms: 8 / sqrt(6)";
}

TEST(Encoder, RefusesValuesThatAreNotFinite) {
  Shared shared;
  shared.params[5] = NAN;
  shared.encoder.begin_snapshot({Shared::view(shared.params), Shared::view(shared.momentum)});
  Payload out(shared.encoder.payload_bytes_max(1));
  EXPECT_EQ(encode_block(shared.encoder, 1, {shared.params.data() + 4, 4}, out), std::nullopt);
  std::fill_n(shared.params.begin(), 4, 0.0f);  // its section's rms is not finite: it has no scale
  EXPECT_TRUE(encode_block(shared.encoder, 0, {shared.params.data(), 4}, out).has_value());
}

}  // namespace
}  // namespace starling
