// Each CUDA twin on device memory, in GB/s of the bytes it must move and as a share of a copy within the device in the
// same run; exact top-k beside torch, whose time the caller brings; and how much of an exchange is hidden behind
// compute on another stream.
//   bench_kernels_cuda [ELEMENTS [REPEATS [TORCH_TOPK_MS]]]
// A row that has a goal ends with `met` or `missed`. Over the emulated GPU the times are those of one CPU core.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/cast.h"
#include "kernels/cuda/dense.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/levels.h"
#include "kernels/cuda/modulo.h"
#include "kernels/cuda/outer.h"
#include "kernels/cuda/pair.h"
#include "kernels/cuda/sparse.h"
#include "kernels/cuda/top_k.h"
#include "kernels/cuda/vector_ops.h"

namespace {

using namespace starling;

constexpr double kStreamingGoal = 0.85;  // of the copy's GB/s
constexpr double kTopKGoal = 4;          // times as fast as torch.topk
constexpr double kOverlapGoal = 0.90;    // of the shorter of exchange and compute
constexpr int kCalls = 10;               // before one wait, so that launches cost what they do in use

struct DeviceBench {
  size_t count;
  int repeats;
  cuda::Stream stream, other;
  cuda::Buffer x_buffer{cuda::BufferKind::kDevice}, y_buffer{cuda::BufferKind::kDevice};
  cuda::Buffer own_buffer{cuda::BufferKind::kDevice}, peer_buffer{cuda::BufferKind::kDevice};
  cuda::Buffer scratch_buffer{cuda::BufferKind::kDevice}, result_buffer{cuda::BufferKind::kDevice};
  cuda::Buffer pinned_buffer{cuda::BufferKind::kPinnedHost};
  float *x, *y;
  std::byte *own, *peer, *scratch, *pinned;
  uint32_t* result;  // aligned for a double
  double copy_rate = 0;

  DeviceBench(size_t element_count, int repeat_count)
      : count(element_count),
        repeats(repeat_count),
        x(floats(x_buffer)),
        y(floats(y_buffer)),
        own(own_buffer.reserve(4 * count)),
        peer(peer_buffer.reserve(4 * count)),
        scratch(scratch_buffer.reserve(scratch_bytes())),
        pinned(pinned_buffer.reserve(4 * count)),
        result(reinterpret_cast<uint32_t*>(result_buffer.reserve(sizeof(double)))) {
    std::mt19937 rng(1);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::vector<float> values(count);
    for (float& value : values) value = normal(rng);
    for (float* to : {x, y, reinterpret_cast<float*>(own), reinterpret_cast<float*>(peer)}) {
      cuda::copy_async(to, values.data(), 4 * count, stream.handle());
    }
    cuda::zero_async(scratch, scratch_bytes(), stream.handle());
    cuda::zero_async(result, sizeof(double), stream.handle());
    stream.wait();
  }
  size_t scratch_bytes() const {
    return std::max(top_k_scratch_bytes(count), (1 + kSumScratchDoubles) * sizeof(double));
  }
  float* floats(cuda::Buffer& buffer) const { return reinterpret_cast<float*>(buffer.reserve(4 * count)); }

  // Seconds of one call, the fastest of `repeats` runs: what disturbs a run only ever slows it.
  template <class Body>
  double seconds(int calls, const Body& body) const {
    double best = 1e30;
    for (int i = 0; i <= repeats; ++i) {  // the first one warms up
      const auto start = std::chrono::steady_clock::now();
      for (int call = 0; call < calls; ++call) body();
      stream.wait();
      other.wait();
      const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (i > 0) best = std::min(best, passed / calls);
    }
    return best;
  }

  template <class Body>
  void row(const char* name, double bytes_per_element, const Body& body) const {
    const double passed = seconds(kCalls, body);
    const double rate = bytes_per_element * static_cast<double>(count) / passed / 1e9;
    std::printf("%-20s %5.1f B/elem %9.4f ms %9.1f M elem/s %8.1f GB/s %6.2f of the copy  %s\n", name,
                bytes_per_element, 1e3 * passed, static_cast<double>(count) / passed / 1e6, rate, rate / copy_rate,
                rate >= kStreamingGoal * copy_rate ? "met" : "missed");
  }

  void ceiling() {
    const double passed = seconds(kCalls, [&] { cuda::copy_async(own, x, 4 * count, stream.handle()); });
    copy_rate = 8 * static_cast<double>(count) / passed / 1e9;
    std::printf("a copy within the device: %.1f GB/s (read + written), %zu elements\n", copy_rate, count);
  }

  void streaming() const {
    void* const on = stream.handle();
    auto* const sum = reinterpret_cast<double*>(scratch);
    const NesterovStep step{.factor = 1, .momentum = 0.9f, .rate = 1e-6f};
    row("axpy", 12, [&] { axpy_cuda(1e-6f, x, y, count, on); });
    row("squared_norm", 4, [&] { squared_norm_cuda(x, count, sum + 1, sum, on); });
    row("max_abs", 4, [&] { max_abs_bits_cuda(x, count, result, on); });
    row("fp32 apply", 16, [&] { pair_apply_f32_cuda(1e-6f, own, peer, count, y, on); });
    row("bf16 encode", 6, [&] { f32_to_bf16_cuda(x, count, own, result, on); });
    row("bf16 decode", 6, [&] { bf16_to_f32_cuda(own, count, y, on); });
    row("bf16 apply", 12, [&] { pair_apply_bf16_cuda(1e-6f, own, peer, count, y, on); });
    row("fp16 encode", 6, [&] { f32_to_fp16_cuda(x, count, own, result, on); });
    row("fp16 apply", 12, [&] { pair_apply_fp16_cuda(1e-6f, own, peer, count, y, on); });
    row("modulo8 encode", 5,
        [&] { modulo_encode_cuda<8>(x, count, -10, own, reinterpret_cast<ModuloEncoded*>(result), on); });
    row("modulo8 apply", 10, [&] { modulo_apply_cuda<8>(1e-6f, own, 0, peer, 1, count, y, on); });
    row("modulo4 encode", 4.5,
        [&] { modulo_encode_cuda<4>(x, count, -6, own, reinterpret_cast<ModuloEncoded*>(result), on); });
    row("modulo4 apply", 9, [&] { modulo_apply_cuda<4>(1e-6f, own, 0, peer, 1, count, y, on); });
    row("axpy_is_finite", 8, [&] { axpy_is_finite_cuda(1e-6f, x, y, count, result, on); });
    auto* const momentum = reinterpret_cast<float*>(peer);
    row("nesterov", 20, [&] { nesterov_cuda(step, x, momentum, y, count, on); });
  }

  // Scales add 1 % at most to the bytes, and are not counted.
  void levels() const {
    void* const on = stream.handle();
    const auto* const scales = reinterpret_cast<const float*>(peer);
    const BlockedLevels int8{{8, 127}, 512}, int4{{4, 7}, 128};
    row("block_max_abs", 4, [&] { block_max_abs_cuda(x, count, 512, reinterpret_cast<uint32_t*>(own), on); });
    row("int4 encode", 4.5, [&] { levels_encode_cuda(int4, x, count, scales, 1, own, on); });
    row("int8 encode", 5, [&] { levels_encode_cuda(int8, x, count, scales, 1, own, on); });
    row("int8 decode", 5, [&] { levels_decode_cuda(int8, own, count, scales, y, on); });
    row("int8 axpy", 9, [&] { levels_axpy_cuda(int8, 1e-6f, own, count, scales, x, on); });
    row("int4 axpy", 8.5, [&] { levels_axpy_cuda(int4, 1e-6f, own, count, scales, x, on); });
    row("bf16 axpy", 10, [&] { dense_axpy_cuda({1e-6f, own, true}, y, count, on); });
  }

  // One percent. The goal needs torch's time: 0 if nobody measured it.
  void top_k(double torch_ms) const {
    const size_t k = (count + 99) / 100;
    auto* const indices = reinterpret_cast<uint32_t*>(own);
    const double passed = seconds(kCalls, [&] { top_k_cuda(x, count, k, scratch, indices, result, stream.handle()); });
    std::printf("%-20s %9.4f ms %9.1f M elem/s", "top_k 1 %", 1e3 * passed, static_cast<double>(count) / passed / 1e6);
    if (torch_ms <= 0) {
      std::printf("   torch not run\n");
    } else {
      const double times = torch_ms / (1e3 * passed);
      std::printf("   torch %.4f ms, %.1f times as long  %s\n", torch_ms, times, times >= kTopKGoal ? "met" : "missed");
    }
    const double gathered = seconds(kCalls, [&] { gather_cuda(x, own, k, y, stream.handle()); });
    const double added = seconds(kCalls, [&] { scatter_axpy_cuda(1e-6f, own, y, k, x, stream.handle()); });
    std::printf("%-20s %9.4f ms, scatter_axpy %9.4f ms\n", "gather", 1e3 * gathered, 1e3 * added);
  }

  // As bf16 exchanges do: encode, payload out, two payloads in, apply.
  void exchange(void* on) const {
    f32_to_bf16_cuda(x, count, own, result, on);
    cuda::copy_async(pinned, own, 2 * count, on);
    cuda::copy_async(own, pinned, 2 * count, on);
    cuda::copy_async(peer, pinned, 2 * count, on);
    pair_apply_bf16_cuda(1e-6f, own, peer, count, x, on);
  }
  void overlap() const {
    const double alone = seconds(1, [&] { exchange(other.handle()); });
    const double step = seconds(kCalls, [&] { axpy_cuda(1e-6f, y, y, count, stream.handle()); });
    const int steps = std::max(1, static_cast<int>(std::lround(alone / step)));  // as long as the exchange
    const auto compute = [&] {
      for (int i = 0; i < steps; ++i) axpy_cuda(1e-6f, y, y, count, stream.handle());
    };
    const double computed = seconds(1, compute);
    const double both = seconds(1, [&] {
      exchange(other.handle());
      compute();
    });
    const double hidden = (alone + computed - both) / std::min(alone, computed);
    std::printf("exchange %.3f ms, compute %.3f ms, both %.3f ms: %.0f %% hidden  %s\n", 1e3 * alone, 1e3 * computed,
                1e3 * both, 100 * hidden, hidden >= kOverlapGoal ? "met" : "missed");
  }
};

}  // namespace

int main(int argc, char** argv) {
  const long long count = argc > 1 ? std::atoll(argv[1]) : 64 << 20;  // far beyond any cache
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 7;
  const double torch_top_k_ms = argc > 3 ? std::atof(argv[3]) : 0;
  if (argc > 4 || count < 16 || repeats < 1) {
    std::fprintf(stderr, "usage: bench_kernels_cuda [ELEMENTS (at least 16) [REPEATS [TORCH_TOPK_MS]]]\n");
    return 2;
  }
  if (const std::string missing = cuda::why_no_device(); !missing.empty()) {
    std::fprintf(stderr, "bench_kernels_cuda: %s\n", missing.c_str());
    return 2;
  }
  DeviceBench bench(static_cast<size_t>(count), repeats);
  bench.ceiling();
  bench.streaming();
  bench.levels();
  bench.top_k(torch_top_k_ms);
  bench.overlap();
  return 0;
}
