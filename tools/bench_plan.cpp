// bench_plan: how long it takes to plan the buckets of 200 layers, and how long selecting takes over the size of what
// is selected from, with the line through it, and the passes over the params before and after that. MGS-SGD assumes
// that selecting from two layers together takes longer than from each alone.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "agent/share/plan_slices.h"
#include "compression/plan/linear_fit.h"
#include "compression/plan/plan_judge.h"
#include "gossip/limits.h"
#include "gossip/rng.h"
#include "kernels/cast.h"
#include "kernels/pair.h"
#include "kernels/vector_ops.h"

namespace starling {
namespace {

constexpr size_t kLayers = 200;
constexpr int kRepeats = 21;

// Processor time of this thread, which other programs lengthen less than the clock's.
template <typename F>
double median_cpu_s(const F& f) {
  f();  // caches and memory of its own
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    const std::clock_t start = std::clock();
    f();
    seconds.push_back(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRepeats / 2, seconds.end());
  return seconds[kRepeats / 2];
}

std::vector<PlanSection> draw_layers(Rng& rng) {
  std::vector<PlanSection> layers;
  for (size_t i = 0; i < kLayers; ++i) layers.push_back({"layer", 1024 + rng.below(500'000), 2e-3 * rng.uniform()});
  return layers;
}

// `judged`: plans are played too, and layers are cut into as many slices as a group's.
void bench_planning(const char* name, CostForm form, double latency_s, double rate_bytes, bool judged = false,
                    uint32_t members = 8) {
  Rng rng(1);
  const std::vector<PlanSection> layers = judged ? plan_slices(draw_layers(rng), kUpdateSlicesMax) : draw_layers(rng);
  StepOptions options;
  options.form = form;
  options.members = members;
  options.codec = {.kind = UpdateKind::kTopk, .density = 0.01};
  options.link = {.latency_s = latency_s, .s_per_byte = 1 / rate_bytes, .occupancy_s = 30e-6};
  options.select = {.start_s = 2e-6, .s_per_element = 1e-9};
  size_t buckets = 0;
  const double seconds = median_cpu_s([&] {
    buckets = (judged ? PlanJudge(layers, options).choose() : best_plan(make_step_model(layers, options))).ends.size();
  });
  std::printf("  %-36s %8.2f ms, %3zu buckets\n", name, 1e3 * seconds, buckets);
}

// Costs without any order: as many pairs as possible are worth keeping.
void bench_arbitrary() {
  Rng rng(2);
  std::vector<double> backward_s;
  std::vector<BucketCost> costs;
  for (size_t i = 0; i < kLayers; ++i) backward_s.push_back(rng.uniform());
  for (size_t i = 0; i < kLayers * (kLayers + 1) / 2; ++i) costs.push_back({rng.uniform(), rng.uniform()});
  const StepModel model(backward_s, std::vector<uint64_t>(kLayers, 1), costs, 0);
  size_t buckets = 0;
  const double seconds = median_cpu_s([&] { buckets = best_plan(model).ends.size(); });
  std::printf("  %-36s %8.2f ms, %3zu buckets\n", "costs drawn at random", 1e3 * seconds, buckets);
}

void bench_selection(double density) {
  UpdateOptions options{.kind = UpdateKind::kTopk, .density = density};
  const auto codec = make_update_codec(options);
  Rng rng(3);
  std::vector<float> x(1 << 23);
  for (float& one : x) one = static_cast<float>(rng.uniform() + rng.uniform() + rng.uniform() - 1.5);
  std::vector<std::byte> out(codec->bytes_max(UpdateRole::kContribution, x.size()));
  std::vector<FitSample<1>> samples;
  std::printf("  density %g %%, ms:", 100 * density);
  for (size_t count = 1 << 12; count <= x.size(); count *= 2) {
    const auto part = std::span<const float>(x).first(count);
    const auto room = std::span<std::byte>(out).first(codec->bytes_max(UpdateRole::kContribution, count));
    const double seconds = median_cpu_s([&] {
      if (!codec->encode(UpdateRole::kContribution, part, UpdateSeeds{}, room)) std::abort();
    });
    samples.push_back({{static_cast<double>(count)}, seconds});
    std::printf(" %zu k %.3f;", count >> 10, 1e3 * seconds);
  }
  const auto fit = fit_line<1>(std::span<const FitSample<1>>(samples));
  if (!fit) return std::printf(" no line\n"), void();
  std::printf("\n    %.1f us + %.3f ns an element, R^2 %.4f (%zu of %zu sizes)\n", 1e6 * fit->start,
              1e9 * fit->slope[0], fit->r_squared, fit->used, samples.size());
  std::printf("    selecting from both halves together / from each alone:");
  for (size_t i = 1; i < samples.size(); ++i) std::printf(" %.2f", samples[i].y / (2 * samples[i - 1].y));
  std::printf("\n");
}

// What a member does with a step's drift before it selects, and with its params when entries are there: slice by slice
// over a model that no cache holds.
void bench_passes() {
  constexpr size_t kElements = 1 << 25, kSlice = 1 << 19;
  std::vector<float> params(kElements, 1), x(kElements, 2), accumulator(kElements);
  const auto each_slice = [&](const auto& pass) {
    return 1e9 / kElements * median_cpu_s([&] {
             for (size_t at = 0; at < kElements; at += kSlice) pass(at);
           });
  };
  const double drift_ns = each_slice([&](size_t at) {
    const auto of = [&](std::vector<float>& all) { return reinterpret_cast<const std::byte*>(all.data() + at); };
    if (!all_finite_f32(of(x), kSlice)) std::abort();
    pair_apply_f32(1, of(params), of(x), kSlice, accumulator.data() + at);
  });
  double rest = 0;
  const double apply_ns = each_slice([&](size_t at) {
    std::copy_n(params.data() + at, kSlice, x.data() + at);
    rest += squared_norm(accumulator.data() + at, kSlice);
  });
  std::printf("  drift joins the accumulator: %.2f ns an element; params become the replica: %.2f ns\n", drift_ns,
              apply_ns);
  if (!(rest > 0)) std::abort();
}

}  // namespace
}  // namespace starling

int main() {
  using namespace starling;
  std::printf("planning %zu layers, 8 members, processor time, median of %d (goal: 100 ms)\n", kLayers, kRepeats);
  bench_planning("group, 1 ms, 1 Gb/s", CostForm::kGroup, 1e-3, 125e6);
  bench_planning("group, 10 ms, 100 Mb/s", CostForm::kGroup, 1e-2, 12.5e6);
  bench_planning("group, judged, 1 ms, 1 Gb/s", CostForm::kGroup, 1e-3, 125e6, true);
  bench_planning("group, judged, 10 ms, 100 Mb/s", CostForm::kGroup, 1e-2, 12.5e6, true);
  bench_planning("the same with 32 members", CostForm::kGroup, 1e-2, 12.5e6, true, 32);
  bench_planning("collectives, .1 ms, 10 Gb/s", CostForm::kCollective, 1e-4, 1250e6);
  bench_planning("collectives, 1 ms, 1 Gb/s", CostForm::kCollective, 1e-3, 125e6);
  bench_arbitrary();
  std::printf("selecting and encoding (topk), processor time, median of %d\n", kRepeats);
  bench_selection(0.01);
  bench_selection(0.001);
  std::printf("passes over 33.6 M elements, processor time, median of %d\n", kRepeats);
  bench_passes();
}
