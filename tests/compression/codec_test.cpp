#include "compression/codec.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/kernels/inputs.h"

#ifdef STARLING_CUDA
#include "kernels/cuda/device.h"
#endif

namespace starling {
namespace {

TEST(Codec, NamesGoBothWays) {
  for (const auto& [kind, name, note] : codec_names()) {
    EXPECT_EQ(parse_codec(name), kind);
    EXPECT_EQ(codec_name(kind), name);
    EXPECT_FALSE(note.empty());
  }
  EXPECT_TRUE(codec_choices(", ").starts_with("fp32, bf16, fp16, modulo8, modulo4")) << codec_choices(", ");
  EXPECT_EQ(parse_codec("modulo8"), CodecKind::kModulo8);
  for (const char* other : {"", "fp8", "FP32", "modulo8 ", "modulo"}) EXPECT_EQ(parse_codec(other), std::nullopt);
}

TEST(Codec, NumbersOnTheWireNeverChange) {
  EXPECT_EQ(static_cast<int>(CodecKind::kFp32), 1);
  EXPECT_EQ(static_cast<int>(CodecKind::kBf16), 2);
  EXPECT_EQ(static_cast<int>(CodecKind::kModulo8), 3);
  EXPECT_EQ(static_cast<int>(CodecKind::kFp16), 4);
  EXPECT_EQ(static_cast<int>(CodecKind::kModulo4), 5);
}

TEST(Codec, MakesWhatWasAskedFor) {
  for (const auto& [kind, name, note] : codec_names()) {
    const auto codec = make_codec(kind, MemorySpace::kHost);
    EXPECT_EQ(codec->kind(), kind);
    EXPECT_EQ(codec->linear(), kind != CodecKind::kModulo8 && kind != CodecKind::kModulo4);
  }
}

TEST(Codec, WithoutAGpuTheErrorSaysWhatToDo) {
#ifdef STARLING_CUDA
  if (cuda::device_count() > 0) GTEST_SKIP() << "this machine has a GPU";
#endif
  for (const auto& [kind, name, note] : codec_names()) {
    try {
      (void)make_codec(kind, MemorySpace::kCuda);
      ADD_FAILURE() << "made a GPU codec without a GPU";
    } catch (const std::runtime_error& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(codec_name(kind)), std::string::npos) << message;
      EXPECT_NE(message.find("train on the CPU"), std::string::npos) << message;
    }
  }
}

std::vector<std::byte> encoded(const Codec& codec, const std::vector<float>& x) {
  std::vector<std::byte> payload(codec.payload_bytes_max(x.size()));
  EXPECT_TRUE(codec.encode({x.data(), x.size(), MemorySpace::kHost}, {}, payload));
  return payload;
}

TEST(Codec, TermsTogetherGiveWhatOneAfterTheOtherGives) {
  TestRng rng(draw_rng_seed());
  for (const auto& [kind, name, note] : codec_names()) {
    const auto codec = make_codec(kind, MemorySpace::kHost);
    for (size_t count : kTestSizes) {
      const std::vector<float> base = normal_vector(rng, count, 2.0f);
      std::vector<std::vector<std::byte>> payloads;  // close enough for every codec to pair
      for (int i = 0; i < 4; ++i) {
        std::vector<float> near = normal_vector(rng, count, 1e-3f);
        for (size_t k = 0; k < count; ++k) near[k] += base[k];
        payloads.push_back(encoded(*codec, near));
      }
      const std::vector<CodecTerm> terms = {
          {0.25f, payloads[0], payloads[1]}, {-0.5f, payloads[0], payloads[2]}, {0.3f, payloads[3], payloads[1]}};
      for (size_t used = 0; used <= terms.size(); ++used) {
        std::vector<float> together = base, one_by_one = base;
        codec->apply_all(std::span(terms).first(used), {together.data(), count, MemorySpace::kHost});
        for (size_t i = 0; i < used; ++i) {
          codec->apply(terms[i].coefficient, terms[i].own, terms[i].peer,
                       {one_by_one.data(), count, MemorySpace::kHost});
        }
        EXPECT_EQ(together, one_by_one) << codec_name(kind) << ", " << count << ", " << used << " terms";
      }
    }
  }
}

// To the bit what applying one difference after the other gives, and near a float64 reference.
TEST(Codec, AMeanIsOwnPlusWeightedDifferences) {
  TestRng rng(draw_rng_seed());
  for (CodecKind kind : {CodecKind::kFp32, CodecKind::kBf16, CodecKind::kFp16}) {
    const auto codec = make_codec(kind, MemorySpace::kHost);
    for (size_t count : kTestSizes) {
      std::vector<std::vector<std::byte>> payloads;
      for (int i = 0; i < 5; ++i) payloads.push_back(encoded(*codec, normal_vector(rng, count, 2.0f)));
      const std::vector<Bytes> peers(payloads.begin() + 1, payloads.end());
      const std::vector<float> weights = {0.125f, 0.3f, 0.05f, 0.2f};
      std::vector<std::byte> mean(payloads[0].size());
      PairStats stats, apart;
      ASSERT_TRUE(codec->mean(payloads[0], peers, weights, count, mean, &stats));
      ASSERT_EQ(codec->pair(payloads[0], mean, count, &apart), PairStatus::kOk);
      EXPECT_NEAR(stats.squared_distance, apart.squared_distance, 1e-9 * (1 + apart.squared_distance));
      EXPECT_EQ(stats.max_abs_difference, apart.max_abs_difference);

      const std::vector<std::byte> zeros = encoded(*codec, std::vector<float>(count));
      std::vector<float> x(count), value(count);
      std::vector<double> reference(count);
      const auto decode = [&](Bytes payload) {
        value.assign(count, 0);
        codec->apply(1, zeros, payload, {value.data(), count, MemorySpace::kHost});
      };
      decode(payloads[0]);
      x = value;
      for (size_t k = 0; k < count; ++k) reference[k] = static_cast<double>(value[k]) * (1 - 0.675);
      for (size_t i = 0; i < peers.size(); ++i) {
        codec->apply(weights[i], payloads[0], peers[i], {x.data(), count, MemorySpace::kHost});
        decode(peers[i]);
        const auto weight = static_cast<double>(weights[i]);
        for (size_t k = 0; k < count; ++k) reference[k] += weight * static_cast<double>(value[k]);
      }
      EXPECT_EQ(encoded(*codec, x), mean) << codec_name(kind) << ", " << count;
      decode(mean);
      const double tolerance = kind == CodecKind::kFp32 ? 1e-5 : 0.05;
      for (size_t k = 0; k < count; ++k) ASSERT_NEAR(static_cast<double>(value[k]), reference[k], tolerance);
    }
  }
}

TEST(Codec, AMeanThatNoFloatHoldsIsRefused) {
  const auto codec = make_codec(CodecKind::kFp32, MemorySpace::kHost);
  const auto own = encoded(*codec, {FLT_MAX, 1}), peer = encoded(*codec, {-FLT_MAX, 1});
  std::vector<std::byte> out(own.size());
  PairStats stats;
  EXPECT_FALSE(codec->mean(own, std::vector<Bytes>{peer}, std::vector<float>{0.5f}, 2, out, &stats));
  EXPECT_TRUE(codec->mean(own, {}, {}, 2, out, &stats));
  EXPECT_EQ(out, own);
}

TEST(Codec, AMeanWithAPeerThatIsNotFiniteIsRefused) {
  TestRng rng(draw_rng_seed());
  for (CodecKind kind : {CodecKind::kFp32, CodecKind::kBf16, CodecKind::kFp16}) {
    const auto codec = make_codec(kind, MemorySpace::kHost);
    const auto own = encoded(*codec, normal_vector(rng, 5000, 1.0f)), good = encoded(*codec, std::vector<float>(5000));
    for (const uint32_t bits : {0x7f80'0000u, 0xff80'0000u, 0x7fc0'0000u, 0xffff'0000u}) {
      std::vector<std::byte> bad = good, out(own.size());
      const size_t bytes = codec->payload_bytes_max(1), at = bytes * (rng() % 5000);
      for (size_t i = 0; i < bytes; ++i) bad[at + i] = static_cast<std::byte>(bits >> 8 * (4 - bytes + i));
      ASSERT_EQ(codec->check(bad, 5000), PayloadStatus::kNonFinite);
      PairStats stats;
      const std::vector<Bytes> peers = {good, bad};
      EXPECT_FALSE(codec->mean(own, peers, std::vector<float>{0.3f, 1e-30f}, 5000, out, &stats));
    }
  }
}

TEST(CodecDeathTest, AMeanOfDifferencesOnlyIsABug) {
  const auto codec = make_codec(CodecKind::kModulo8, MemorySpace::kHost);
  EXPECT_DEATH((void)codec->mean({}, {}, {}, 0, {}, nullptr), "check failed");
}

TEST(CodecDeathTest, AWrongOutputSizeIsABug) {
  const auto codec = make_codec(CodecKind::kFp32, MemorySpace::kHost);
  const float x[2] = {1, 2};
  std::byte out[9];
  EXPECT_DEATH((void)codec->encode({x, 2, MemorySpace::kHost}, {}, out), "check failed");
  EXPECT_DEATH((void)codec->encode({x, 2, MemorySpace::kCuda}, {}, MutableBytes(out).first(8)), "check failed");
}

}  // namespace
}  // namespace starling
