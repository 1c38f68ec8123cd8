// Step models for the planner's tests.
#pragma once

#include <vector>

#include "compression/plan/merge_plan.h"
#include "tests/kernels/inputs.h"

namespace starling {

// Any costs at all: no sum, no start-up, nothing that grows with the bucket.
inline StepModel arbitrary_model(TestRng& rng, size_t count) {
  const auto draw = [&rng](double scale) { return scale * static_cast<double>(rng() % 1000) / 1000; };
  const double select = rng() % 2 == 0 ? 0 : draw(4), send = draw(8);
  const double tail = rng() % 2 == 0 ? 0 : draw(8);
  std::vector<double> backward_s;
  std::vector<uint64_t> elements;
  std::vector<BucketCost> buckets;
  for (size_t i = 0; i < count; ++i) {
    backward_s.push_back(rng() % 4 == 0 ? 0 : draw(1));
    elements.push_back(1 + rng() % 100000);
  }
  for (size_t i = 0; i < count * (count + 1) / 2; ++i) buckets.push_back({draw(select), draw(send), draw(tail)});
  return StepModel(std::move(backward_s), std::move(elements), std::move(buckets), draw(1),
                   rng() % 2 == 0 ? 0 : draw(16));
}

// Layers of very different sizes, so that some lie below the smallest section and one may hold most of the model.
inline std::vector<PlanSection> draw_sections(TestRng& rng, size_t count) {
  std::vector<PlanSection> sections;
  for (size_t i = 0; i < count; ++i) {
    sections.push_back({"layer" + std::to_string(i), 1 + rng() % (uint64_t{1} << (rng() % 24)),
                        static_cast<double>(rng() % 1000) * 1e-5});
  }
  sections[rng() % count].backward_s += 1e-4;
  return sections;
}

inline StepOptions draw_options(TestRng& rng) {
  constexpr double kScale[] = {0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2};
  StepOptions options;
  options.form = rng() % 2 == 0 ? CostForm::kGroup : CostForm::kCollective;
  options.members = static_cast<uint32_t>(2 + rng() % 31);
  options.codec.kind = rng() % 4 == 0 ? UpdateKind::kFp32 : UpdateKind::kTopk;
  options.codec.density = rng() % 2 == 0 ? 0.01 : 0.001;
  options.link = {.latency_s = kScale[rng() % 6],
                  .s_per_byte = 1e-10 * static_cast<double>(1 + rng() % 1000),
                  .occupancy_s = kScale[rng() % 6]};
  options.apply_s_per_element = rng() % 2 == 0 ? 0 : 1e-9 * static_cast<double>(rng() % 100);
  options.select = {.start_s = kScale[rng() % 5], .s_per_element = rng() % 3 == 0 ? 0 : 4e-10};
  return options;
}

}  // namespace starling
