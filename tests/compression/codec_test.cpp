#include "compression/codec.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#ifdef STARLING_CUDA
#include "kernels/cuda/device.h"
#endif

namespace starling {
namespace {

constexpr CodecKind kAll[] = {CodecKind::kFp32, CodecKind::kBf16, CodecKind::kModulo8};

TEST(Codec, NamesGoBothWays) {
  for (CodecKind kind : kAll) EXPECT_EQ(parse_codec(codec_name(kind)), kind);
  EXPECT_EQ(parse_codec("modulo8"), CodecKind::kModulo8);
  for (const char* other : {"", "fp16", "FP32", "modulo8 ", "modulo"}) EXPECT_EQ(parse_codec(other), std::nullopt);
}

TEST(Codec, NumbersOnTheWireNeverChange) {
  EXPECT_EQ(static_cast<int>(CodecKind::kFp32), 1);
  EXPECT_EQ(static_cast<int>(CodecKind::kBf16), 2);
  EXPECT_EQ(static_cast<int>(CodecKind::kModulo8), 3);
}

TEST(Codec, MakesWhatWasAskedFor) {
  for (CodecKind kind : kAll) {
    const auto codec = make_codec(kind, MemorySpace::kHost);
    EXPECT_EQ(codec->kind(), kind);
    EXPECT_EQ(codec->traits().messages, 1);
    EXPECT_FALSE(codec->traits().needs_residual);
    EXPECT_EQ(codec->traits().linear, kind != CodecKind::kModulo8);
  }
}

TEST(Codec, WithoutAGpuTheErrorSaysWhatToDo) {
#ifdef STARLING_CUDA
  if (cuda::device_count() > 0) GTEST_SKIP() << "this machine has a GPU";
#endif
  for (CodecKind kind : kAll) {
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

TEST(CodecDeathTest, AWrongOutputSizeIsABug) {
  const auto codec = make_codec(CodecKind::kFp32, MemorySpace::kHost);
  const float x[2] = {1, 2};
  std::byte out[9];
  EXPECT_DEATH((void)codec->encode({x, 2, MemorySpace::kHost}, {}, out), "check failed");
  EXPECT_DEATH((void)codec->encode({x, 2, MemorySpace::kCuda}, {}, MutableBytes(out).first(8)), "check failed");
}

}  // namespace
}  // namespace starling
