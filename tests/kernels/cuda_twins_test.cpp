// Each CUDA twin against the host loop it mirrors, which the other tests here hold against plain definitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/cast.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/modulo.h"
#include "kernels/cuda/pair.h"
#include "kernels/cuda/vector_ops.h"
#include "kernels/modulo.h"
#include "kernels/pair.h"
#include "kernels/vector_ops.h"
#include "tests/kernels/inputs.h"

namespace starling {
namespace {

constexpr size_t kTwinSizes[] = {0, 1, 3, 31, 32, 4097, 1000003};

class CudaTwins : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << "no GPU here: the CUDA twins were compiled, not run";
    stream_ = std::make_unique<cuda::Stream>();
  }

  // A copy of `values` in device memory, at least 64 bytes of it.
  template <typename T>
  T* upload(const std::vector<T>& values) {
    const size_t bytes = values.size() * sizeof(T);
    buffers_.push_back(std::make_unique<cuda::Buffer>(cuda::BufferKind::kDevice));
    std::byte* to = buffers_.back()->reserve(bytes + 64);
    cuda::zero_async(to, bytes + 64, stream());
    cuda::copy_async(to, values.data(), bytes, stream());
    stream_->wait();
    return reinterpret_cast<T*>(to);
  }
  template <typename T>
  std::vector<T> download(const T* from, size_t count) {
    std::vector<T> values(count);
    cuda::copy_async(values.data(), from, count * sizeof(T), stream());
    stream_->wait();
    return values;
  }
  void* stream() { return stream_->handle(); }

  TestRng rng_{draw_rng_seed()};
  std::unique_ptr<cuda::Stream> stream_;
  std::vector<std::unique_ptr<cuda::Buffer>> buffers_;
};

TEST_F(CudaTwins, VectorOps) {
  for (size_t count : kTwinSizes) {
    const std::vector<float> x = normal_vector(rng_, count, 1.0f);
    std::vector<float> y = normal_vector(rng_, count, 1.0f);
    float* device_x = upload(x);
    float* device_y = upload(y);
    double* scratch = upload(std::vector<double>(kSumScratchDoubles, NAN));
    double* result = upload(std::vector<double>(2, NAN));
    squared_norm_cuda(device_x, count, scratch, result, stream());
    squared_distance_cuda(device_x, device_y, count, scratch, result + 1, stream());
    const std::vector<double> sums = download(result, 2);
    const double norm = squared_norm(x.data(), count);
    const double distance = squared_distance(x.data(), y.data(), count);
    EXPECT_NEAR(sums[0], norm, 1e-12 * norm) << count;
    EXPECT_NEAR(sums[1], distance, 1e-12 * distance) << count;

    axpy_cuda(0.3f, device_x, device_y, count, stream());
    axpy(0.3f, x.data(), y.data(), count);
    EXPECT_EQ(bits_of(download(device_y, count)), bits_of(y)) << count;
  }
}

TEST_F(CudaTwins, CountNonfiniteAndMaxAbs) {
  for (size_t count : kTwinSizes) {
    std::vector<float> x = hostile_vector(rng_, count);
    uint32_t* largest = upload(std::vector<uint32_t>(1));
    max_abs_bits_cuda(upload(x), count, largest, stream());
    EXPECT_EQ(download(largest, 1)[0], std::bit_cast<uint32_t>(max_abs(x.data(), count)));
    for (size_t i = 0; i < count; i += 1 + rng_() % 1000) x[i] = i % 2 == 0 ? NAN : INFINITY;
    uint64_t* found = upload(std::vector<uint64_t>(1));
    count_nonfinite_cuda(upload(x), count, found, stream());
    EXPECT_EQ(download(found, 1)[0], count_nonfinite(x.data(), count));
  }
}

TEST_F(CudaTwins, Bf16Cast) {
  for (size_t count : kTwinSizes) {
    std::vector<float> x = hostile_vector(rng_, count);
    for (bool sick : {false, true}) {
      if (sick && count > 0) x[rng_() % count] = std::bit_cast<float>(0x7F800001u);
      std::vector<std::byte> expected(2 * count);
      const bool finite = f32_to_bf16(x.data(), count, expected.data());
      std::byte* out = upload(std::vector<std::byte>(2 * count));
      uint32_t* largest = upload(std::vector<uint32_t>(1));
      f32_to_bf16_cuda(upload(x), count, out, largest, stream());
      EXPECT_EQ(download(out, 2 * count), expected) << count;
      EXPECT_EQ(download(largest, 1)[0] <= 0x7F7FFFFFu, finite) << count;
    }
  }
}

TEST_F(CudaTwins, PairApply) {
  for (size_t count : kTwinSizes) {
    const std::vector<float> a = normal_vector(rng_, count, 1.0f);
    const std::vector<float> b = normal_vector(rng_, count, 1e-3f);
    const std::vector<float> x = normal_vector(rng_, count, 1.0f);
    for (bool half : {false, true}) {
      std::vector<std::byte> own(count * (half ? 2 : 4)), peer(own.size());
      ASSERT_TRUE((half ? f32_to_bf16 : f32_to_bytes)(a.data(), count, own.data()));
      ASSERT_TRUE((half ? f32_to_bf16 : f32_to_bytes)(b.data(), count, peer.data()));
      std::vector<float> expected = x;
      (half ? pair_apply_bf16 : pair_apply_f32)(0.37f, own.data(), peer.data(), count, expected.data());
      float* device_x = upload(x);
      (half ? pair_apply_bf16_cuda : pair_apply_f32_cuda)(0.37f, upload(own), upload(peer), count, device_x, stream());
      EXPECT_EQ(bits_of(download(device_x, count)), bits_of(expected)) << count << " " << half;
    }
  }
}

TEST_F(CudaTwins, Modulo) {
  for (size_t count : kTwinSizes) {
    const std::vector<float> x = normal_vector(rng_, count, 1.0f);
    for (int exponent : {-29, -10, 0, 4}) {
      std::vector<std::byte> codes(count);
      const ModuloEncoded expected = modulo_encode(x.data(), count, exponent, codes.data());
      std::byte* device_codes = upload(std::vector<std::byte>(count));
      ModuloEncoded* result = upload(std::vector<ModuloEncoded>(1));
      modulo_encode_cuda(upload(x), count, exponent, device_codes, result, stream());
      EXPECT_EQ(download(device_codes, count), codes) << count << " " << exponent;
      EXPECT_EQ(download(result, 1)[0].projection, expected.projection) << count << " " << exponent;
      EXPECT_EQ(download(result, 1)[0].max_abs_bits, expected.max_abs_bits) << count << " " << exponent;
    }
    for (int shift = -3; shift <= 3; ++shift) {
      const std::vector<std::byte> own = random_bytes(rng_, count);
      const std::vector<std::byte> peer = random_bytes(rng_, count);
      std::vector<float> y = x;
      modulo_apply(0.013f, own.data(), std::max(shift, 0), peer.data(), std::max(-shift, 0), count, y.data());
      float* device_x = upload(x);
      modulo_apply_cuda(0.013f, upload(own), std::max(shift, 0), upload(peer), std::max(-shift, 0), count, device_x,
                        stream());
      EXPECT_EQ(bits_of(download(device_x, count)), bits_of(y)) << count << " " << shift;
    }
    buffers_.clear();
  }
}

}  // namespace
}  // namespace starling
