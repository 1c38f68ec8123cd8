// CUDA codecs on GPUs in a bad state, which only the emulation can bring about: none, full, lost; and used by several
// threads, on one device of two.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "compression/codec.h"
#include "emulation.h"
#include "kernels/cuda/device.h"
#include "kernels/device_failure.h"
#include "tests/kernels/inputs.h"

namespace starling {
namespace {

using Payload = std::vector<std::byte>;

class CodecFaults : public testing::TestWithParam<CodecKind> {
 protected:
  CodecFaults() { emulation::reset(); }
  ~CodecFaults() override { emulation::reset(); }

  std::unique_ptr<Codec> make() { return make_codec(GetParam(), MemorySpace::kCuda); }

  // `values` in device memory of `params`, which owns it.
  static View place(cuda::Buffer& params, const std::vector<float>& values) {
    const cuda::Stream stream;
    std::byte* const data = params.reserve(values.size() * sizeof(float));
    cuda::copy_async(data, values.data(), values.size() * sizeof(float), stream.handle());
    stream.wait();
    return {reinterpret_cast<float*>(data), values.size(), MemorySpace::kCuda};
  }
  static Payload encode(const Codec& codec, ConstView x) {
    Payload payload(codec.payload_bytes_max(x.count));
    const auto memory = codec.make_memory(x.count);
    EXPECT_EQ(codec.encode(x, {.memory = memory.get()}, payload), payload.size());
    return payload;
  }
  static Payload on_the_host(const std::vector<float>& x) {
    return encode(*make_codec(GetParam(), MemorySpace::kHost), {x.data(), x.size(), MemorySpace::kHost});
  }
  // What the call throws; empty if it does not.
  template <typename F>
  static std::string thrown(F call) {
    try {
      call();
    } catch (const DeviceFailure& error) {
      return error.what();
    }
    return "";
  }

  const std::vector<float> x_ = [] {
    TestRng rng(draw_rng_seed());
    return normal_vector(rng, 5000, 1.0f);
  }();
};

#define EXPECT_SAYS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

TEST_P(CodecFaults, NoDeviceAndAnOldDriverAreRefusedWithARemedy) {
  emulation::reset({.devices = 0});
  EXPECT_SAYS(thrown([&] { make(); }), "CUDA finds none; look at nvidia-smi and CUDA_VISIBLE_DEVICES");
  emulation::reset({.driver = cudaErrorInsufficientDriver});
  EXPECT_SAYS(thrown([&] { make(); }), "the NVIDIA driver is missing or too old for this program; update it");
  emulation::reset({.driver = cudaErrorLaunchFailure});
  EXPECT_SAYS(thrown([&] { make(); }), "(cudaErrorLaunchFailure); look at nvidia-smi and the driver's log");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the next check would blame somebody else";
}

TEST_P(CodecFaults, WithoutMemoryACallThrowsAndTheNextOneMayWork) {
  cuda::Buffer params(cuda::BufferKind::kDevice);
  const View view = place(params, x_);
  const std::unique_ptr<Codec> codec = make();
  emulation::machine.memory_bytes = emulation::memory_in_use() + 16;
  EXPECT_SAYS(thrown([&] { encode(*codec, view); }),
              "allocating device memory failed on the GPU: cudaErrorMemoryAllocation");
  EXPECT_SAYS(thrown([&] { encode(*codec, view); }), "free GPU memory or train with a smaller model or batch");
  emulation::machine.memory_bytes = size_t{1} << 30;
  emulation::machine.pinned = false;
  EXPECT_SAYS(thrown([&] { encode(*codec, view); }),
              "; free memory of the machine, or raise the limit of its container");
  emulation::machine.pinned = true;
  EXPECT_EQ(encode(*codec, view), on_the_host(x_));
}

// Wherever the GPU is lost, the call throws, and all that is left can still be let go.
TEST_P(CodecFaults, ALostGpuEndsTheCallWithARemedy) {
  int64_t work = 0;
  for (bool lost = true; lost; ++work) {
    emulation::reset();
    auto params = std::make_unique<cuda::Buffer>(cuda::BufferKind::kDevice);
    const View view = place(*params, x_);
    std::unique_ptr<Codec> codec = make();
    emulation::machine.work_until_loss = work;
    const std::string text = thrown([&] {
      const Payload own = encode(*codec, view);
      codec->apply(0.5f, own, own, view);
    });
    lost = !text.empty();
    if (lost) {
      EXPECT_SAYS(text, "the GPU has fallen off the bus");
      EXPECT_SAYS(text, "look at nvidia-smi and the driver's log, or run on the CPU");
      EXPECT_NE(thrown([&] { encode(*codec, view); }), "") << "a lost GPU stays lost";
    }
    codec.reset();
    params.reset();
    EXPECT_EQ(emulation::memory_in_use(), 0u);
  }
  EXPECT_GT(work, 4) << "an encode and an apply are several pieces of work";
}

TEST_P(CodecFaults, WorksOnItsOwnDeviceAndLeavesTheCallersCurrent) {
  emulation::reset({.devices = 2});
  std::unique_ptr<Codec> codec;
  cuda::Buffer params(cuda::BufferKind::kDevice);
  View view;
  {
    const cuda::CurrentDevice second(1);
    codec = make();
    view = place(params, x_);
  }
  EXPECT_EQ(cuda::current_device(), 0);
  EXPECT_EQ(encode(*codec, view), on_the_host(x_));
  EXPECT_EQ(cuda::current_device(), 0);
  emulation::machine.devices = 1;  // the second one is gone
  EXPECT_SAYS(thrown([&] { encode(*codec, view); }), "choosing the device failed on the GPU");
  EXPECT_EQ(cuda::current_device(), 0);
}

TEST_P(CodecFaults, SeveralThreadsShareOneCodec) {
  const std::unique_ptr<Codec> codec = make();
  const Payload expected = on_the_host(x_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      cuda::Buffer params(cuda::BufferKind::kDevice);
      const View view = place(params, x_);
      for (int round = 0; round < 5; ++round) {
        EXPECT_EQ(encode(*codec, view), expected);
        codec->apply(0.5f, expected, expected, view);  // a difference of 0
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A wait for the GPU takes longer than all that is done to a block.
TEST_P(CodecFaults, APassWaitsOnce) {
  constexpr size_t kBlocks = 20;
  cuda::Buffer params(cuda::BufferKind::kDevice);
  const View view = place(params, x_);
  const std::unique_ptr<Codec> codec = make();
  const Payload own = encode(*codec, view);
  const CodecTerm term{0.5f, own, own};
  std::vector<Payload> out(kBlocks, own);
  std::vector<std::unique_ptr<CodecMemory>> memories;
  std::vector<BlockPass> blocks;
  for (size_t i = 0; i < kBlocks; ++i) {
    memories.push_back(codec->make_memory(x_.size()));
    if (memories.back()) {
      ASSERT_TRUE(memories.back()->load(Bytes(own).first(1)));
    }
    blocks.push_back({.x = view, .terms = {&term, 1}, .context = {.memory = memories.back().get()}, .out = out[i]});
  }
  const uint64_t before = emulation::waits();
  codec->pass(blocks);
  EXPECT_EQ(emulation::waits() - before, 1u);
  for (const Payload& payload : out) EXPECT_EQ(payload, own);
}

TEST(CudaBuffer, GrowsAndGivesBack) {
  emulation::reset();
  for (auto kind : {cuda::BufferKind::kDevice, cuda::BufferKind::kPinnedHost}) {
    cuda::Buffer buffer(kind);
    std::byte* const small = buffer.reserve(100);
    EXPECT_EQ(buffer.reserve(50), small);
    EXPECT_EQ(buffer.reserve(100), small);
    ASSERT_NE(buffer.reserve(5000), nullptr);
    const cuda::Stream stream;
    cuda::zero_async(buffer.reserve(5000), 5000, stream.handle());
    stream.wait();
  }
  EXPECT_EQ(emulation::memory_in_use(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Cuda, CodecFaults,
                         testing::Values(CodecKind::kFp32, CodecKind::kBf16, CodecKind::kFp16, CodecKind::kModulo8,
                                         CodecKind::kModulo4),
                         [](const auto& info) { return std::string(codec_name(info.param)); });

}  // namespace
}  // namespace starling
