// Loops of updates beside the same in LibTorch on one core, in turn: top-k, the count sketch beside csvec's operations
// (github.com/nikitaivkin/csh), and encoding with its residual. Each with its goal, and the share of the ceiling of the
// same run.
//   bench_torch [--target avx2] [ELEMENTS [REPEATS [DIGITS]]]
// DIGITS: a folder of IDX files, from which the gradients are; without it, of generated images.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "compression/update_codec.h"
#include "kernels/check.h"
#include "kernels/count_sketch.h"
#include "kernels/levels.h"
#include "kernels/top_k.h"
#include "kernels/vector_ops.h"
#include "tools/bench_clock.h"
#include "tools/bench_cnn.h"

namespace {

using namespace starling;

constexpr uint32_t kRows = 5;
constexpr int64_t kFewer = 40;  // elements a cell of the table
constexpr int kTrained = 30;    // steps before the gradient is taken

// csvec holds buckets and signs of every row ready; here one row's serve all, which spares memory, not time.
struct Csvec {
  explicit Csvec(int64_t count, int64_t columns)
      : columns(columns),
        buckets(torch::randint(columns, {count}, torch::kInt64)),
        signs(torch::randint(2, {count}).to(torch::kFloat32) * 2 - 1),
        table(torch::zeros({kRows, columns})) {}

  void add(const torch::Tensor& x) {
    for (int64_t row = 0; row < int64_t{kRows}; ++row) {
      table[row] += torch::bincount(buckets, signs * x, columns).to(torch::kFloat32);
    }
  }
  // In pieces, as csvec does with many elements: all rows' values at once would be five times the vector.
  torch::Tensor largest(int64_t k) const {
    constexpr int64_t kPiece = 5'000'000;
    const int64_t count = buckets.size(0);
    torch::Tensor values = torch::empty({count});
    for (int64_t at = 0; at < count; at += kPiece) {
      const int64_t length = std::min(kPiece, count - at);
      torch::Tensor rows = torch::empty({kRows, length});
      for (int64_t row = 0; row < int64_t{kRows}; ++row) {
        rows[row] = table[row].index_select(0, buckets.narrow(0, at, length)) * signs.narrow(0, at, length);
      }
      values.narrow(0, at, length).copy_(std::get<0>(rows.median(0)));
    }
    return std::get<1>((values * values).topk(k, -1, true, false));
  }

  int64_t columns;
  torch::Tensor buckets, signs, table;
};

struct Bench {
  size_t count;
  int repeats;
  bool avx2;
  double read = 0, copy = 0;  // of the elements, seconds

  // A third of the goal without AVX-512.
  double goal(double with_avx512) const { return avx2 ? with_avx512 / 3 : with_avx512; }

  void print(const char* name, const Beside& found, double times, double ceiling, double share) const {
    const bool good = found.ratio() >= goal(times) && ceiling / found.ours >= share;
    std::printf("%-34s %8.2f ms, LibTorch %8.1f ms: %6.1fx (goal %.4gx), %.2f of the ceiling", name, 1e3 * found.ours,
                1e3 * found.theirs, found.ratio(), goal(times), ceiling / found.ours);
    if (share > 0) std::printf(" (goal %.2f)", share);
    std::printf("  %s\n", met(good));
  }

  void top_k_of(const char* name, const torch::Tensor& x) const {
    const size_t k = count / 100;
    std::vector<uint32_t> indices(count);
    TopKScratch scratch;
    Beside found;
    for (int i = 0; i < repeats; ++i) {
      found.run([&] { STARLING_CHECK(top_k(x.data_ptr<float>(), count, k, &scratch, indices.data()).has_value()); },
                [&] { keep(x.abs().topk(static_cast<int64_t>(k), -1, true, false)); });
    }
    print(name, found, 40, read, 0.5);
  }

  void sketch(const torch::Tensor& x) const {
    const auto columns = static_cast<uint32_t>(static_cast<int64_t>(count) / kFewer / kRows);
    const SketchShape shape{kRows, columns, 1};
    const size_t k = count / 100;
    Csvec csvec(static_cast<int64_t>(count), shape.columns);
    std::vector<float> table(shape.cells()), estimates(kTopKPiece);
    std::vector<uint32_t> indices(count);
    TopKScratch scratch;
    Beside add, unsketch;
    for (int i = 0; i < repeats; ++i) {
      std::fill(table.begin(), table.end(), 0.0f);
      add.run([&] { sketch_add(shape, x.data_ptr<float>(), count, table.data()); }, [&] { csvec.add(x); });
      const auto ours = [&] {
        const TopKValues values{[&](size_t begin, size_t length) {
                                  sketch_estimate(shape, table.data(), begin, length, estimates.data());
                                  return estimates.data();
                                },
                                kSketchBlock / 16, kSketchBlock};
        STARLING_CHECK(top_k(values, count, k, &scratch, indices.data()).has_value());
      };
      unsketch.run(ours, [&] { keep(csvec.largest(static_cast<int64_t>(k))); });
    }
    print("count sketch encode, 5 rows, 40x", add, 40, read, 0);
    print("unsketch: estimate all, top_k 1 %", unsketch, 100, read, 0);
  }

  // What LibTorch needs for codes, one to a byte, and what they leave out: packing them is not counted.
  static void torch_residual(UpdateKind kind, const torch::Tensor& x, torch::Tensor* codes, torch::Tensor* rest) {
    const torch::Tensor v = x.view({-1, kind == UpdateKind::kInt4 ? 128 : 512});
    torch::Tensor scale;
    if (kind == UpdateKind::kSignEf) {
      scale = v.abs().mean(1, true);
      *codes = v.sign().to(torch::kInt8);
    } else {
      const double levels = kind == UpdateKind::kInt8 ? 127 : kind == UpdateKind::kInt4 ? 7 : 1;
      scale = std::get<0>(v.abs().max(1, true)) / levels;
      if (kind == UpdateKind::kTernary) scale = torch::minimum(scale, 2.5 * v.square().mean(1, true).sqrt());
      *codes =
          (v / scale).clamp_(-levels, levels).add_(torch::rand_like(v)).floor_().clamp_max_(levels).to(torch::kInt8);
    }
    *rest = v - scale * *codes;
  }

  // Twice: the codec's payload of all, then the residual, as members settle; and block by block, in one pass.
  void residual(const char* name, UpdateKind kind, const LevelCodes& codes, const torch::Tensor& x,
                double share) const {
    const auto codec = make_update_codec({.kind = kind});
    const size_t size = count / 512 * 512, block = kind == UpdateKind::kInt4 ? 128 : 512;
    const torch::Tensor whole = x.narrow(0, 0, static_cast<int64_t>(size));
    std::vector<float> rest(x.data_ptr<float>(), x.data_ptr<float>() + size);
    std::vector<std::byte> payload(codec->bytes_max(UpdateRole::kContribution, size));
    torch::Tensor torch_codes, torch_rest;
    const auto one_by_one = [&] {
      STARLING_CHECK(codec->encode(UpdateRole::kContribution, rest, {}, payload).has_value());
      codec->add(-1, payload, {}, rest);
    };
    const auto one_pass = [&] {
      for (size_t b = 0; b * block < size; ++b) {
        float* const from = rest.data() + b * block;
        std::byte* const to = payload.data() + 8 + b * codes.bytes(block);
        const float largest = max_abs(from, block);
        const auto n = static_cast<double>(block);
        const double scale = kind == UpdateKind::kSignEf ? sum_abs(from, block) / n
                             : kind == UpdateKind::kTernary
                                 ? std::min<double>(largest, 2.5 * std::sqrt(squared_norm(from, block) / n))
                                 : static_cast<double>(largest) / codes.levels;
        levels_encode(codes, from, block, scale > 1e-30 ? static_cast<float>(1 / scale) : 0, 1, b * block, to);
        levels_axpy(codes, -1, to, block, static_cast<float>(scale), from);
      }
    };
    Beside apart, fused;
    const auto refill = [&] { std::copy_n(whole.data_ptr<float>(), size, rest.begin()); };
    for (int i = 0; i < repeats; ++i) {
      refill();
      apart.run(one_by_one, [&] { torch_residual(kind, whole, &torch_codes, &torch_rest); });
      refill();
      fused.run(one_pass, [] {});
      fused.theirs = apart.theirs;
    }
    // Read, written, and the codes: in bytes of a copy, which reads and writes four of each.
    const double ceiling = copy * (8 + codes.bits / 8.0) / 8;
    print((std::string(name) + ", then residual").c_str(), apart, 5, ceiling, 0);
    print((std::string(name) + ", in one pass").c_str(), fused, 5, ceiling, share);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const bool avx2 = argc > 2 && std::string(argv[1]) == "--target";
  const bool good = take_target(&argc, argv);
  const int64_t count = argc > 1 ? std::atoll(argv[1]) : 25'000'000;
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 5;
  if (!good || argc > 4 || count < 100'000 || count > 200'000'000 || repeats < 1) {
    std::fprintf(stderr, "usage: bench_torch [--target avx2] [ELEMENTS (100000 to 200000000) [REPEATS [DIGITS]]]\n");
    return 2;
  }
  CnnTraining training(argc > 3 ? argv[3] : "");
  double loss = 0;
  for (int i = 0; i < kTrained; ++i) loss = training.step();
  const torch::NoGradGuard no_grad;
  Bench bench{static_cast<size_t>(count), repeats, avx2};
  std::vector<float> gradient = training.gradient(bench.count), spare(bench.count);
  bench.read = read_seconds(spare, 2 * repeats);
  bench.copy = copy_seconds(gradient, spare, 2 * repeats);
  std::printf(
      "%lld elements, one core, the fastest of %d in turn; ceilings: a read %.2f ms (%.1f GB/s), a copy %.2f "
      "ms; gradients of %zu parameters after %d steps, loss %.2f, repeated\n",
      static_cast<long long>(count), repeats, 1e3 * bench.read, 4e-9 * static_cast<double>(count) / bench.read,
      1e3 * bench.copy, training.parameter_count(), kTrained, loss);
  const torch::Tensor normal = torch::randn({count}), heavy = normal.pow(3);
  const torch::Tensor real = torch::from_blob(gradient.data(), {count});
  bench.top_k_of("top_k 1 %, normal", normal);
  bench.top_k_of("top_k 1 %, cubes of normals", heavy);
  bench.top_k_of("top_k 1 %, gradients", real);
  bench.sketch(heavy);
  bench.residual("sign_ef", UpdateKind::kSignEf, {1, 1}, real, 0.7);
  bench.residual("ternary", UpdateKind::kTernary, {2, 1}, real, 0.7);
  bench.residual("int8", UpdateKind::kInt8, {8, 127}, real, 0.55);
  bench.residual("int4", UpdateKind::kInt4, {4, 7}, real, 0.55);
  return 0;
}
