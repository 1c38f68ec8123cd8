// The twins of what updates and their payloads go through, each against the host loop and a plain definition beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "kernels/cast.h"
#include "kernels/cuda/dense.h"
#include "kernels/cuda/outer.h"
#include "kernels/cuda/sparse.h"
#include "kernels/cuda/top_k.h"
#include "kernels/dense.h"
#include "kernels/outer.h"
#include "kernels/sparse.h"
#include "kernels/top_k.h"
#include "kernels/vector_ops.h"
#include "tests/kernels/cuda_twins.h"

namespace starling {
namespace {

class CudaUpdateTwins : public CudaTwins {
 protected:
  // nullopt: x holds what is not finite.
  std::optional<std::vector<uint32_t>> top_k_on_gpu(const float* x, size_t count, size_t k) {
    uint32_t* const indices = room<uint32_t>(std::min(k, count));
    uint32_t* const found = room<uint32_t>(1);
    top_k_cuda(x, count, k, room<std::byte>(top_k_scratch_bytes(count)), indices, found, stream());
    const uint32_t size = download(found, 1)[0];
    if (size == kTopKNotFinite) return std::nullopt;
    EXPECT_LE(size, std::min(k, count));
    return download(indices, std::min<size_t>(size, std::min(k, count)));
  }
  // On the host, where a sample guides the search.
  static std::optional<std::vector<uint32_t>> top_k_on_host(const std::vector<float>& x, size_t k) {
    std::vector<uint32_t> indices(std::min(k, x.size()));
    TopKScratch scratch;
    const std::optional<size_t> found = top_k(x.data(), x.size(), k, &scratch, indices.data());
    if (!found) return std::nullopt;
    indices.resize(*found);
    return indices;
  }
  std::byte* upload_indices(const std::vector<uint32_t>& indices) {
    return reinterpret_cast<std::byte*>(upload(indices));
  }
};

// By sorting all that is not zero.
std::optional<std::vector<uint32_t>> plain_top_k(const std::vector<float>& x, size_t k) {
  std::vector<uint32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0u);
  if (!std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); })) return std::nullopt;
  std::erase_if(order, [&](uint32_t i) { return x[i] == 0; });
  const size_t size = std::min(k, order.size());
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return std::fabs(x[a]) > std::fabs(x[b]); });
  order.resize(size);
  std::sort(order.begin(), order.end());
  return order;
}

TEST_P(CudaUpdateTwins, TopK) {
  with_each([&](const std::vector<float>& x, const std::vector<float>&) {
    const size_t count = x.size();
    const float* const device_x = upload(x);
    for (size_t k : {size_t{1}, (count + 99) / 100, count / 2, count + 5}) {
      const auto expected = top_k_on_host(x, k);
      EXPECT_EQ(top_k_on_gpu(device_x, count, k), expected) << k;
      EXPECT_EQ(expected, plain_top_k(x, k)) << k;
    }
  });
}

// Digits that are full, empty, or all that there is; ties that end anywhere.
TEST_P(CudaUpdateTwins, TopKOfFewValues) {
  for (size_t count : {33u, 1025u, 4097u}) {
    for (const auto& [offset, spread] : {std::pair{2.0f, 0.0f}, {2.0f, 1.0f}, {0.0f, 1e-38f}, {0.0f, 1e-44f}}) {
      std::vector<float> x(count);
      for (float& value : x) {
        const float sign = rng_() % 2 == 0 ? 1.0f : -1.0f;
        value = sign * (offset + spread * static_cast<float>(rng_() % 5));
      }
      const float* const device_x = upload(x);
      for (size_t k = 0; k <= count; k += 1 + rng_() % (count / 2)) {
        EXPECT_EQ(top_k_on_gpu(device_x, count, k), plain_top_k(x, k)) << k << " of " << count << " by " << spread;
      }
    }
  }
}

// More warps than their counts are added up at once.
TEST_P(CudaUpdateTwins, TopKOfManySegments) {
  const std::vector<float> x = normal_vector(rng_, 140'003, 1.0f);
  EXPECT_EQ(top_k_on_gpu(upload(x), x.size(), 1400), top_k_on_host(x, 1400));
}

TEST_P(CudaUpdateTwins, GatherAndScatter) {
  with_each([&](const std::vector<float>& x, const std::vector<float>& y) {
    std::vector<uint32_t> chosen;
    for (size_t i = 0; i < x.size(); ++i) {
      if (rng_() % 3 == 0) chosen.push_back(static_cast<uint32_t>(i));
    }
    const size_t count = chosen.size(), base = count == 0 ? 0 : chosen[0];
    const auto* const bytes = reinterpret_cast<const std::byte*>(chosen.data());
    const std::byte* const indices = upload_indices(chosen);
    float* const values = room<float>(count);
    gather_cuda(upload(x), indices, count, values, stream());
    std::vector<float> gathered(count), scattered(y.begin() + static_cast<ptrdiff_t>(base), y.end()), added = y;
    float* const device_scattered = upload(scattered);
    float* const device_added = upload(added);
    scatter_cuda(indices, values, count, base, device_scattered, stream());
    scatter_axpy_cuda(0.3f, indices, values, count, device_added, stream());
    gather(x.data(), bytes, count, gathered.data());
    EXPECT_EQ(bits_of(download(values, count)), bits_of(gathered));
    for (size_t j = 0; j < count; ++j) {
      EXPECT_EQ(std::bit_cast<uint32_t>(gathered[j]), std::bit_cast<uint32_t>(x[chosen[j]]));
    }
    scatter(bytes, gathered.data(), count, base, scattered.data());
    EXPECT_EQ(bits_of(download(device_scattered, scattered.size())), bits_of(scattered));
    std::vector<float> expected = y;
    for (uint32_t i : chosen) expected[i] += 0.3f * x[i];
    scatter_axpy(0.3f, bytes, gathered.data(), count, added.data());
    EXPECT_EQ(bits_but_nan(download(device_added, added.size())), bits_but_nan(added));
    EXPECT_EQ(bits_but_nan(added), bits_but_nan(expected));
  });
}

TEST_P(CudaUpdateTwins, DenseAxpy) {
  with_each([&](const std::vector<float>& x, const std::vector<float>& y) {
    for (const bool is_bf16 : {false, true}) {
      std::vector<std::byte> bytes(x.size() * (is_bf16 ? 2 : 4));
      (void)(is_bf16 ? f32_to_bf16 : f32_to_bytes)(x.data(), x.size(), bytes.data());
      std::vector<float> sum = y, values(x), defined = y;
      if (is_bf16) bf16_to_f32(bytes.data(), x.size(), values.data());
      for (size_t i = 0; i < x.size(); ++i) defined[i] += -0.3f * values[i];
      float* const device_sum = upload(y);
      dense_axpy_cuda({-0.3f, upload(bytes), is_bf16}, device_sum, x.size(), stream());
      dense_axpy({-0.3f, bytes.data(), is_bf16}, sum.data(), x.size());
      EXPECT_EQ(bits_but_nan(download(device_sum, x.size())), bits_but_nan(sum)) << is_bf16;
      EXPECT_EQ(bits_but_nan(sum), bits_but_nan(defined)) << is_bf16;
    }
  });
}

bool all_finite(const std::vector<float>& x) {
  return std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); });
}

TEST_P(CudaUpdateTwins, AxpyIsFinite) {
  with_each([&](const std::vector<float>& x, const std::vector<float>& y) {
    uint32_t* const largest = zeroed<uint32_t>();
    axpy_is_finite_cuda(2.0f, upload(x), upload(y), x.size(), largest, stream());
    std::vector<float> sum = y;
    for (size_t i = 0; i < x.size(); ++i) sum[i] += 2.0f * x[i];
    uint32_t magnitude = 0;
    for (uint32_t bits : bits_but_nan(sum)) magnitude = std::max(magnitude, bits & 0x7FFFFFFFu);
    const uint32_t found = download(largest, 1)[0];
    if (magnitude > 0x7F800000u)
      EXPECT_GT(found, 0x7F800000u);  // some NaN
    else
      EXPECT_EQ(found, magnitude);
    EXPECT_EQ(found <= 0x7F7FFFFFu, axpy_is_finite(2.0f, x.data(), y.data(), x.size()));
    EXPECT_EQ(found <= 0x7F7FFFFFu, all_finite(sum));
  });
}

TEST_P(CudaUpdateTwins, Nesterov) {
  with_each([&](const std::vector<float>& x, const std::vector<float>& y) {
    const size_t count = x.size();
    const NesterovStep step{.factor = 0.4f, .momentum = 0.9f, .rate = 0.7f};
    std::vector<float> m = normal_vector(rng_, count, 0.1f), r = y;
    const float* const device_v = upload(x);
    float* const device_m = upload(m);
    float* const device_r = upload(r);
    uint32_t* const largest = zeroed<uint32_t>();
    nesterov_is_finite_cuda(step, device_v, device_m, device_r, count, largest, stream());
    const bool fits = nesterov_is_finite(step, x.data(), m.data(), r.data(), count);
    nesterov_cuda(step, device_v, device_m, device_r, count, stream());
    std::vector<float> expected_m = m, expected_r = r;
    for (size_t i = 0; i < count; ++i) {
      const float value = step.factor * x[i];
      expected_m[i] = step.momentum * m[i] + value;
      expected_r[i] = r[i] + step.rate * (value + step.momentum * expected_m[i]);
    }
    nesterov(step, x.data(), m.data(), r.data(), count);
    EXPECT_EQ(download(largest, 1)[0] <= 0x7F7FFFFFu, fits);
    EXPECT_EQ(fits, all_finite(expected_m) && all_finite(expected_r));
    EXPECT_EQ(bits_but_nan(download(device_m, count)), bits_but_nan(m));
    EXPECT_EQ(bits_but_nan(download(device_r, count)), bits_but_nan(r));
    EXPECT_EQ(bits_but_nan(m), bits_but_nan(expected_m));
    EXPECT_EQ(bits_but_nan(r), bits_but_nan(expected_r));
  });
}

INSTANTIATE_TEST_SUITE_P(Grids, CudaUpdateTwins, testing::ValuesIn(kHostileGrids), grid_name);

}  // namespace
}  // namespace starling
