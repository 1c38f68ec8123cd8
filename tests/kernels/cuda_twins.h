// A CUDA twin against the host loop it mirrors: device memory of exact sizes, hostile grids, every fill at every size.
// One source, two programs: on a GPU, and over tests/support/cuda_emulation everywhere.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/device.h"
#include "tests/kernels/fills.h"

namespace starling {

inline constexpr cuda::GridLimits kHostileGrids[] = {
    {},                                                               // as in production
    {.most = 1}, {.most = 2}, {.most = 3}, {.most = 64, .extra = 5},  // more blocks than the work
};

class CudaTwins : public testing::TestWithParam<cuda::GridLimits> {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "no GPU here: the CUDA twins were compiled, not run";
    cuda::grid_limits = GetParam();
    stream_.emplace();
  }
  void TearDown() override { cuda::grid_limits = {}; }

  // Device memory of exactly this size, so that a step past the end shows. What it holds is undefined.
  template <typename T>
  T* room(size_t count) {
    buffers_.push_back(std::make_unique<cuda::Buffer>(cuda::BufferKind::kDevice));
    return count == 0 ? nullptr : reinterpret_cast<T*>(buffers_.back()->reserve(count * sizeof(T)));
  }
  template <typename T>
  T* upload(const std::vector<T>& values) {
    T* const to = room<T>(values.size());
    cuda::copy_async(to, values.data(), values.size() * sizeof(T), stream());
    stream_->wait();
    return to;
  }
  template <typename T>
  T* zeroed() {
    return upload(std::vector<T>(1));
  }
  template <typename T>
  std::vector<T> download(const T* from, size_t count) {
    std::vector<T> values(count);
    cuda::copy_async(values.data(), from, count * sizeof(T), stream());
    stream_->wait();
    return values;
  }
  void* stream() { return stream_->handle(); }

  // Calls check(x, y, fill) with every fill at every size; y is sometimes of the fill, sometimes plain.
  template <typename F>
  void with_each(F check) {
    for (const FilledSize& input : filled_sizes()) {
      SCOPED_TRACE(input.name);
      const std::vector<float> x = filled_vector(rng_, input.fill, input.count);
      check(x, filled_vector(rng_, rng_() % 3 == 0 ? input.fill : Fill::kNormal, input.count));
      buffers_.clear();
    }
  }

  TestRng rng_{draw_rng_seed()};
  std::optional<cuda::Stream> stream_;
  std::vector<std::unique_ptr<cuda::Buffer>> buffers_;
};

inline std::string grid_name(const testing::TestParamInfo<cuda::GridLimits>& info) {
  const bool any = info.param.most == cuda::GridLimits().most;
  return (any ? "Any" : std::to_string(info.param.most)) + "Blocks" + (info.param.extra > 0 ? "AndMore" : "");
}

}  // namespace starling
