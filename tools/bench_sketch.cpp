// The count sketch beside csvec's operations (github.com/nikitaivkin/csh) in LibTorch, on one core: five rows, together
// a 20th of the elements. Both run in turn, so that a disturbed machine disturbs both.
//   bench_sketch [ELEMENTS [REPEATS]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <torch/torch.h>

#include "kernels/count_sketch.h"
#include "kernels/top_k.h"

namespace {

constexpr uint32_t kRows = 5;
constexpr int64_t kFewer = 20;   // elements a cell of the table

template <class Body>
double seconds(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct Pair {
  std::vector<double> ours, theirs, ratios;
  template <class Ours, class Theirs>
  void run(const Ours& our_body, const Theirs& their_body) {
    ours.push_back(seconds(our_body));
    theirs.push_back(seconds(their_body));
    ratios.push_back(theirs.back() / ours.back());
  }
  // `ceiling_s`: one read of the elements.
  void print(const char* name, double goal, double ceiling_s) const {
    const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
    std::printf("%-22s %8.1f ms, LibTorch %8.1f ms: %6.1fx (%.1f to %.1f; goal %.0fx)  %4.2f of a read of x\n",
                name, 1e3 * median(ours), 1e3 * median(theirs), median(ratios), *low, *high, goal,
                ceiling_s / median(ours));
  }
};

// csvec holds buckets and signs of every row ready; here one row's serve all, which spares memory, not time.
struct Csvec {
  explicit Csvec(int64_t count, int64_t columns)
      : columns(columns), buckets(torch::randint(columns, {count}, torch::kInt64)),
        signs(torch::randint(2, {count}).to(torch::kFloat32) * 2 - 1), table(torch::zeros({kRows, columns})) {}

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

}  // namespace

int main(int argc, char** argv) {
  using namespace starling;
  const int64_t count = argc > 1 ? std::atoll(argv[1]) : 25'000'000;
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 5;
  if (argc > 3 || count < 100'000 || count > 200'000'000 || repeats < 1) {
    std::fprintf(stderr, "usage: bench_sketch [ELEMENTS (100000 to 200000000) [REPEATS]]\n");
    return 2;
  }
  torch::set_num_threads(1);
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  const auto size = static_cast<size_t>(count), k = size / 100;
  const torch::Tensor x = torch::randn({count}).pow(3);
  const float* const values = x.data_ptr<float>();
  const SketchShape shape{kRows, static_cast<uint32_t>(count / kFewer / kRows), 1};
  Csvec csvec(count, shape.columns);
  std::vector<float> table(shape.cells()), estimates(size);
  std::vector<uint32_t> indices(k);
  TopKScratch scratch;
  Pair add, unsketch, top;
  double read = 1e30;
  for (int i = 0; i <= repeats; ++i) {
    read = std::min(read, seconds([&] { asm volatile("" : : "r"(std::memchr(estimates.data(), 1, 4 * size))); }));
    if (i == 1) add = unsketch = top = {};   // the first run warms up
    add.run([&] { sketch_add(shape, values, size, table.data()); }, [&] { csvec.add(x); });
    const auto ours = [&] {
      sketch_estimate(shape, table.data(), 0, size, estimates.data());
      if (!top_k(estimates.data(), size, k, &scratch, indices.data())) std::abort();
    };
    unsketch.run(ours, [&] { csvec.largest(static_cast<int64_t>(k)); });
    std::fill(estimates.begin(), estimates.end(), 0.0f);
    top.run([&] { if (!top_k(values, size, k, &scratch, indices.data())) std::abort(); },
            [&] { (void)x.abs().topk(static_cast<int64_t>(k), -1, true, false); });
  }
  std::printf("%lld elements, %u rows of %u cells, 1 %% found; one core; a read of the elements: %.1f ms\n",
              static_cast<long long>(count), shape.rows, shape.columns, 1e3 * read);
  add.print("sketch add", 40, read);
  unsketch.print("sketch estimate, top_k", 100, read);
  top.print("top_k", 40, read);
  return 0;
}
