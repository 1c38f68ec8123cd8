// The twins of what params and their payloads go through, each against the host loop and a plain definition beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kernels/cast.h"
#include "kernels/cuda/cast.h"
#include "kernels/cuda/modulo.h"
#include "kernels/cuda/pair.h"
#include "kernels/cuda/vector_ops.h"
#include "kernels/modulo.h"
#include "kernels/modulo_element.h"
#include "kernels/pair.h"
#include "kernels/transfer.h"
#include "kernels/vector_ops.h"
#include "tests/kernels/cuda_twins.h"

namespace starling {
namespace {

void expect_sum(double sum, double host, long double definition) {
  const auto exact = static_cast<double>(definition);
  if (std::isnan(exact)) {
    EXPECT_TRUE(std::isnan(sum) && std::isnan(host)) << sum << " " << host;
  } else if (std::isinf(exact)) {
    EXPECT_EQ(sum, exact);
    EXPECT_EQ(host, exact);
  } else {
    EXPECT_NEAR(sum, host, 1e-12 * host);
    EXPECT_NEAR(sum, exact, 1e-12 * exact);
  }
}

TEST_P(CudaTwins, SquaredNorm) {
  with_each([&](const std::vector<float>& x, const std::vector<float>&) {
    double* const result = room<double>(1);
    squared_norm_cuda(upload(x), x.size(), room<double>(kSumScratchDoubles), result, stream());
    long double exact = 0;
    for (const float value : x) exact += static_cast<long double>(value) * value;
    expect_sum(download(result, 1)[0], squared_norm(x.data(), x.size()), exact);
  });
}

// More partial sums than a block has threads; and the order of threads and blocks must not show in a single bit.
TEST_P(CudaTwins, SquaredNormIsTheSameBitsEachTime) {
  const std::vector<float> x = normal_vector(rng_, 100003, 1.0f);
  const float* const device_x = upload(x);
  std::vector<double> sums;
  for (int i = 0; i < 3; ++i) {
    double* const result = room<double>(1);
    squared_norm_cuda(device_x, x.size(), room<double>(kSumScratchDoubles), result, stream());
    sums.push_back(download(result, 1)[0]);
  }
  EXPECT_EQ(std::bit_cast<uint64_t>(sums[1]), std::bit_cast<uint64_t>(sums[0]));
  EXPECT_EQ(std::bit_cast<uint64_t>(sums[2]), std::bit_cast<uint64_t>(sums[0]));
  const double host = squared_norm(x.data(), x.size());
  EXPECT_NEAR(sums[0], host, 1e-12 * host);
}

TEST_P(CudaTwins, Axpy) {
  with_each([&](const std::vector<float>& x, std::vector<float> y) {
    float* const device_y = upload(y);
    axpy_cuda(0.3f, upload(x), device_y, x.size(), stream());
    std::vector<float> expected = y;
    for (size_t i = 0; i < x.size(); ++i) expected[i] += 0.3f * x[i];
    axpy(0.3f, x.data(), y.data(), x.size());
    EXPECT_EQ(bits_but_nan(download(device_y, x.size())), bits_but_nan(y));
    EXPECT_EQ(bits_but_nan(y), bits_but_nan(expected));
  });
}

TEST_P(CudaTwins, MaxAbs) {
  with_each([&](const std::vector<float>& x, const std::vector<float>&) {
    uint32_t* const largest = zeroed<uint32_t>();
    max_abs_bits_cuda(upload(x), x.size(), largest, stream());
    uint32_t magnitude = 0;
    for (uint32_t bits : bits_of(x)) magnitude = std::max(magnitude, bits & 0x7FFFFFFFu);
    EXPECT_EQ(download(largest, 1)[0], magnitude);
    const float host = max_abs(x.data(), x.size());
    EXPECT_TRUE(std::isnan(host) ? magnitude > 0x7F800000u : std::bit_cast<uint32_t>(host) == magnitude);
  });
}

float value_of_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// No other bfloat16 is nearer to x; a finite x stays finite, a NaN a NaN.
bool rounds_to(float x, uint16_t bits) {
  const float value = value_of_bf16(bits);
  if (!std::isfinite(x)) return std::isnan(x) ? std::isnan(value) : value == x;
  if (!std::isfinite(value)) return false;
  const double error = std::fabs(double{value} - x);
  for (int step : {-1, 1}) {
    const float other = value_of_bf16(static_cast<uint16_t>(bits + step));
    if (std::isfinite(other) && std::fabs(double{other} - x) < error) return false;
  }
  return true;
}

TEST_P(CudaTwins, Bf16Cast) {
  with_each([&](const std::vector<float>& x, const std::vector<float>&) {
    const size_t count = x.size();
    std::vector<std::byte> expected(2 * count);
    const bool finite = f32_to_bf16(x.data(), count, expected.data());
    std::byte* const out = room<std::byte>(2 * count);
    uint32_t* const largest = zeroed<uint32_t>();
    f32_to_bf16_cuda(upload(x), count, out, largest, stream());
    EXPECT_EQ(download(out, 2 * count), expected);
    EXPECT_EQ(download(largest, 1)[0] <= 0x7F7FFFFFu, finite);
    std::vector<uint16_t> halves(count);
    if (count > 0) std::memcpy(halves.data(), expected.data(), 2 * count);
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i) wrong += !rounds_to(x[i], halves[i]);
    EXPECT_EQ(wrong, 0u);
    float* const back = room<float>(count);
    bf16_to_f32_cuda(out, count, back, stream());
    std::vector<float> host(count);
    bf16_to_f32(expected.data(), count, host.data());
    const std::vector<float> values = download(back, count);
    EXPECT_EQ(bits_of(values), bits_of(host));
    for (size_t i = 0; i < count; ++i) wrong += std::bit_cast<uint32_t>(values[i]) != uint32_t{halves[i]} << 16;
    EXPECT_EQ(wrong, 0u);
  });
}

TEST_P(CudaTwins, Fp16Cast) {
  with_each([&](const std::vector<float>& x, const std::vector<float>&) {
    const size_t count = x.size();
    std::vector<std::byte> expected(2 * count);
    const bool finite = f32_to_fp16(x.data(), count, expected.data());
    std::byte* const out = room<std::byte>(2 * count);
    uint32_t* const largest = zeroed<uint32_t>();
    f32_to_fp16_cuda(upload(x), count, out, largest, stream());
    EXPECT_EQ(download(out, 2 * count), expected);
    EXPECT_EQ(download(largest, 1)[0] <= 0x7F7FFFFFu, finite);
  });
}

struct PairLoops {
  const char* name;
  size_t value_bytes;
  bool (*write)(const float*, size_t, std::byte*);
  void (*apply)(float, const std::byte*, const std::byte*, size_t, float*);
  void (*twin)(float, const std::byte*, const std::byte*, size_t, float*, void*);
};
constexpr PairLoops kPairLoops[] = {{"f32", 4, f32_to_bytes, pair_apply_f32, pair_apply_f32_cuda},
                                    {"bf16", 2, f32_to_bf16, pair_apply_bf16, pair_apply_bf16_cuda},
                                    {"fp16", 2, f32_to_fp16, pair_apply_fp16, pair_apply_fp16_cuda}};

TEST_P(CudaTwins, PairApply) {
  with_each([&](const std::vector<float>& x, const std::vector<float>& y) {
    const size_t count = x.size();
    const std::vector<float> b = normal_vector(rng_, count, 1e-3f);
    for (const PairLoops& loops : kPairLoops) {
      std::vector<std::byte> own(count * loops.value_bytes), peer(own.size());
      (void)loops.write(y.data(), count, own.data());  // hostile payloads too
      (void)loops.write(b.data(), count, peer.data());
      std::vector<float> expected = x;
      loops.apply(0.37f, own.data(), peer.data(), count, expected.data());
      float* const device_x = upload(x);
      loops.twin(0.37f, upload(own), upload(peer), count, device_x, stream());
      EXPECT_EQ(bits_but_nan(download(device_x, count)), bits_but_nan(expected)) << loops.name;
    }
  });
}

// Codes of 8 and of 4 bits.
class CudaModuloTwins : public CudaTwins {
 protected:
  template <int kBits>
  static int code_at(const std::vector<std::byte>& codes, size_t i, size_t count) {
    if (kBits == 8) return std::to_integer<int>(codes[i]);
    const size_t row = i / 4096, elements = std::min<size_t>(4096, count - row * 4096), half = (elements + 1) / 2;
    const size_t at = i % 4096;
    return std::to_integer<int>(at < half ? codes[row * 2048 + at] & std::byte{15}
                                          : codes[row * 2048 + at - half] >> 4);
  }

  template <int kBits>
  void expect_encodes(const std::vector<float>& x) {
    const size_t count = x.size(), bytes = modulo_code_bytes<kBits>(count);
    const float* const device_x = upload(x);
    for (int exponent : {-29, -10, 0, 4, 100}) {
      std::vector<std::byte> codes(bytes);
      const ModuloEncoded expected = modulo_encode<kBits>(x.data(), count, exponent, codes.data());
      std::byte* const device_codes = room<std::byte>(bytes);
      ModuloEncoded* const result = zeroed<ModuloEncoded>();
      modulo_encode_cuda<kBits>(device_x, count, exponent, device_codes, result, stream());
      const ModuloEncoded sums = download(result, 1)[0];
      EXPECT_EQ(sums.max_abs_bits, expected.max_abs_bits) << exponent;
      const double largest = std::ldexp(double{std::bit_cast<float>(expected.max_abs_bits)}, -exponent);
      if (!(largest < 2147483647.0)) continue;  // codes of what is out of range are never sent
      EXPECT_EQ(download(device_codes, bytes), codes) << exponent;
      EXPECT_EQ(sums.projection, expected.projection) << exponent;
      size_t wrong = 0;
      for (size_t i = 0; i < count; ++i) {
        const int64_t q = std::llrint(std::ldexp(double{x[i]}, -exponent));
        wrong += (q & ((1 << kBits) - 1)) != code_at<kBits>(codes, i, count);
      }
      EXPECT_EQ(wrong, 0u) << exponent;
    }
  }

  template <int kBits>
  void expect_applies(const std::vector<float>& x) {
    const size_t count = x.size(), bytes = modulo_code_bytes<kBits>(count);
    for (int shift = -6; shift <= 6; shift += 3) {
      const std::vector<std::byte> own = random_bytes(rng_, bytes), peer = random_bytes(rng_, bytes);
      const int own_shift = std::max(shift, 0), peer_shift = std::max(-shift, 0);
      std::vector<float> expected = x;
      modulo_apply<kBits>(0.013f, own.data(), own_shift, peer.data(), peer_shift, count, expected.data());
      float* const device_x = upload(x);
      modulo_apply_cuda<kBits>(0.013f, upload(own), own_shift, upload(peer), peer_shift, count, device_x, stream());
      EXPECT_EQ(bits_but_nan(download(device_x, count)), bits_but_nan(expected)) << shift;
    }
  }
};

TEST_P(CudaModuloTwins, ModuloEncode) {
  with_each([&](const std::vector<float>& x, const std::vector<float>&) {
    expect_encodes<8>(x);
    expect_encodes<4>(x);
  });
}

TEST_P(CudaModuloTwins, ModuloApply) {
  with_each([&](const std::vector<float>& x, const std::vector<float>&) {
    expect_applies<8>(x);
    expect_applies<4>(x);
  });
}

TEST_P(CudaTwins, Transfer) {
  with_each([&](const std::vector<float>& x, const std::vector<float>& y) {
    const View view{upload(x), x.size(), MemorySpace::kCuda};
    std::vector<float> copied(x.size());
    copy_to_host(view, copied.data());
    EXPECT_EQ(bits_of(copied), bits_of(x));
    const double host = squared_norm(x.data(), x.size());
    const double sum = squared_norm(ConstView(view));
    EXPECT_TRUE(std::isnan(host) ? std::isnan(sum) : sum == host || std::fabs(sum - host) <= 1e-12 * host);
    copy_from_host(y.data(), view);
    EXPECT_EQ(bits_of(download(view.data, view.count)), bits_of(y));
  });
}

INSTANTIATE_TEST_SUITE_P(Grids, CudaTwins, testing::ValuesIn(kHostileGrids), grid_name);
INSTANTIATE_TEST_SUITE_P(Grids, CudaModuloTwins, testing::ValuesIn(kHostileGrids), grid_name);

}  // namespace
}  // namespace starling
