// Copies beside what a GPU computes. One source, two programs, as the twins.
#include "kernels/copy_lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/vector_ops.h"
#include "kernels/transfer.h"

namespace starling {
namespace {

constexpr size_t kParts = 6, kCount = 700;  // of a part: a few blocks

class CudaCopyLane : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "no GPU here: the copies were compiled, not run";
    stream_.emplace();
    x_ = reinterpret_cast<float*>(memory_.reserve(kParts * kCount * sizeof(float)));
    ones_ = reinterpret_cast<float*>(ones_memory_.reserve(kCount * sizeof(float)));
    const std::vector<float> ones(kCount, 1.0f);
    cuda::zero_async(x_, kParts * kCount * sizeof(float), stream());
    cuda::copy_async(ones_, ones.data(), kCount * sizeof(float), stream());
    stream_->wait();
    host_.emplace(MemorySpace::kCuda, kParts * kCount, FloatMemory::Place::kStaging);
    lane_ = make_copy_lane(stream(), kParts);
  }
  void* stream() { return stream_->handle(); }
  float* part(size_t index) { return x_ + index * kCount; }
  void add_one(size_t index) { axpy_cuda(1, ones_, part(index), kCount, stream()); }
  // Its first element apart from the others.
  void begin(size_t index) {
    float* const to = host_->all().data() + index * kCount;
    const std::vector<CopyPiece> pieces = {{to, {part(index), 1, MemorySpace::kCuda}},
                                           {to + 1, {part(index) + 1, kCount - 1, MemorySpace::kCuda}}};
    lane_->begin(index, pieces);
  }
  bool host_holds(size_t index, float value) const {
    const std::span<const float> copied = host_->all().subspan(index * kCount, kCount);
    return std::all_of(copied.begin(), copied.end(), [&](float one) { return one == value; });
  }

  std::optional<cuda::Stream> stream_;
  cuda::Buffer memory_{cuda::BufferKind::kDevice}, ones_memory_{cuda::BufferKind::kDevice};
  float *x_ = nullptr, *ones_ = nullptr;
  std::optional<FloatMemory> host_;
  std::unique_ptr<CopyLane> lane_;  // last: its copies end before the memory
};

TEST_F(CudaCopyLane, AllZeroBeforeTheFirst) {
  for (size_t i = 0; i < kParts; ++i) EXPECT_TRUE(host_holds(i, 0));
}

// Backward as it will be: part after part is computed, and who asks in between finds some of them here.
TEST_F(CudaCopyLane, LandsWithWhatWasComputedBefore) {
  for (int step = 1; step <= 40; ++step) {
    std::vector<size_t> under_way;
    for (size_t index = kParts; index-- > 0;) {
      add_one(index);
      begin(index);
      under_way.push_back(index);
      std::erase_if(under_way, [&](size_t asked) {
        const bool landed = lane_->landed(asked);
        if (landed) {
          EXPECT_TRUE(host_holds(asked, static_cast<float>(step))) << asked;
        }
        return landed;
      });
    }
    std::shuffle(under_way.begin(), under_way.end(), std::mt19937(static_cast<unsigned>(step)));
    for (const size_t index : under_way) {
      lane_->wait(index);
      EXPECT_TRUE(lane_->landed(index));
      ASSERT_TRUE(host_holds(index, static_cast<float>(step))) << index;
    }
  }
}

TEST_F(CudaCopyLane, LeavesNoErrorBehindWhenACopyIsStillUnderWay) {
  for (int step = 1; step <= 20; ++step) {
    add_one(0);
    begin(0);
    while (!lane_->landed(0)) cuda::check_launch("a launch that did not fail");
    ASSERT_TRUE(host_holds(0, static_cast<float>(step)));
  }
}

TEST_F(CudaCopyLane, WaitsForNothingElse) {
  int still_computing = 0;
  for (int round = 0; round < 10; ++round) {
    add_one(0);
    begin(0);
    cuda::Event all;
    for (int i = 0; i < 100; ++i) add_one(1 + i % (kParts - 1));
    all.record(stream());
    lane_->wait(0);
    still_computing += !all.reached();
    stream_->wait();
  }
  EXPECT_GT(still_computing, 0);
}

TEST_F(CudaCopyLane, EndsWithItsCopies) {
  for (size_t index = 0; index < kParts; ++index) {
    add_one(index);
    begin(index);
  }
  lane_.reset();
  for (size_t index = 0; index < kParts; ++index) EXPECT_TRUE(host_holds(index, 1)) << index;
}

}  // namespace
}  // namespace starling
