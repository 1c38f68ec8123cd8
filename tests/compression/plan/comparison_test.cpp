#include "compression/plan/comparison.h"

#include <gtest/gtest.h>

#include "tests/compression/plan/models.h"
#include "tests/support/seeds.h"

namespace starling {
namespace {

TEST(PlanComparison, BestIsNeverOverAnyOther) {
  TestRng rng(draw_rng_seed());
  for (uint64_t trial = 0; trial < seed_count(100); ++trial) {
    const PlanComparison all = compare_plans(draw_sections(rng, 1 + rng() % 40), draw_options(rng));
    for (const PlanRow& row :
         {all.by_form, all.per_section, all.one_bucket, all.by_bytes, all.greedy, all.better_naive()}) {
      ASSERT_LE(all.best.times.end_s, row.times.end_s) << "trial " << trial << ", " << row.name;
      ASSERT_LE(all.by_form.form_end_s, row.form_end_s) << "trial " << trial << ", " << row.name;
    }
    ASSERT_LE(all.best.messages, all.per_section.messages * (1 + 1e-12)) << "trial " << trial;  // sums round
  }
}

// A fast link carries the whole gradient sooner than its largest elements are found; a thin one never does.
TEST(PlanComparison, SaysWhereDenseIsFaster) {
  const std::vector<PlanSection> layers(10, {"layer", 1'000'000, 0.01});
  StepOptions options;
  options.codec = {.kind = UpdateKind::kTopk, .density = 0.01};
  options.select = {.s_per_element = 5e-9};
  options.link = {.latency_s = 1e-5, .s_per_byte = 1e-11};
  EXPECT_TRUE(compare_plans(layers, options).dense_is_faster());
  options.link.s_per_byte = 8e-8;
  EXPECT_FALSE(compare_plans(layers, options).dense_is_faster());
}

TEST(PlanComparison, NamesWhatIsMerged) {
  const std::vector<PlanSection> sections = {{"decoder", 1'000'000, 0.01}, {"embedding", 90'000'000, 0}};
  StepOptions options;
  options.form = CostForm::kCollective;
  EXPECT_EQ(compare_plans(sections, options).per_section.name, "per layer");
  options.form = CostForm::kGroup;
  EXPECT_EQ(compare_plans(sections, options).per_section.name, "per slice");
}

}  // namespace
}  // namespace starling
