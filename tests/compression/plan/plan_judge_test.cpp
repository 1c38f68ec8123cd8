#include "compression/plan/plan_judge.h"

#include <gtest/gtest.h>

#include "compression/plan/plan_replay.h"
#include "tests/compression/plan/models.h"
#include "tests/support/seeds.h"

namespace starling {
namespace {

std::vector<MergePlan> naive_plans(const StepModel& model) {
  return {plan_per_section(model.count()), plan_one_bucket(model.count()), plan_by_bytes(model), plan_greedy(model)};
}

TEST(PlanJudge, NoNaivePlanEndsEarlierWhenPlayed) {
  TestRng rng(draw_rng_seed());
  for (uint64_t trial = 0; trial < seed_count(3000); ++trial) {
    const auto sections = draw_sections(rng, 1 + rng() % 16);
    StepOptions options = draw_options(rng);
    options.members = 2 + options.members % 8;
    const PlanJudge judge(sections, options);
    const MergePlan chosen = judge.choose();
    ASSERT_TRUE(is_plan(chosen, sections.size()));
    for (const MergePlan& other : naive_plans(judge.model())) {
      const auto played_s = [&](const MergePlan& plan) {
        const StepTimes times = step_times(judge.model(), plan);
        return options.form == CostForm::kGroup ? replay_group(sections, times, options).times.end_s : times.end_s;
      };
      ASSERT_LE(played_s(chosen), played_s(other)) << "trial " << trial << ", " << other.ends.size() << " buckets";
    }
  }
}

TEST(PlanJudge, EveryCutGainsSomethingWhenPlayed) {
  TestRng rng(draw_rng_seed());
  for (uint64_t trial = 0; trial < seed_count(200); ++trial) {
    StepOptions options = draw_options(rng);
    options.members = 2 + options.members % 8;
    const PlanJudge judge(draw_sections(rng, 1 + rng() % 16), options);
    const MergePlan plan = judge.choose();
    for (size_t cut = 0; cut + 1 < plan.ends.size(); ++cut) {
      MergePlan fewer = plan;
      fewer.ends.erase(fewer.ends.begin() + static_cast<std::ptrdiff_t>(cut));
      ASSERT_GT(judge.played_end_s(fewer), judge.played_end_s(plan)) << "trial " << trial << ", cut " << cut;
    }
  }
}

// Equal slices over a thin link: by the form all owners' links fill evenly whatever is merged; played, a bucket of a
// few slices leaves the other owners' links idle.
TEST(PlanJudge, LeavesTheBestPlanByTheFormWhereItLosesWhenPlayed) {
  const std::vector<PlanSection> slices(20, {"slice", 500'000, 0.01});
  StepOptions options;
  options.members = 8;
  options.codec = {.kind = UpdateKind::kTopk, .density = 0.01};
  options.link = {.latency_s = 1e-3, .s_per_byte = 8e-8, .occupancy_s = 3e-5};
  options.select = kHostTopk;
  const PlanJudge judge(slices, options);
  const MergePlan by_form = best_plan(judge.model());
  const double form_s = judge.played_end_s(by_form), alone_s = judge.played_end_s(plan_per_section(20));
  EXPECT_GT(form_s, alone_s);
  EXPECT_LE(judge.played_end_s(judge.choose()), alone_s);
}

// With collective calls there is nothing that the form leaves out.
TEST(PlanJudge, OfCollectiveCallsTheBestPlanByTheFormIsTaken) {
  TestRng rng(draw_rng_seed());
  for (uint64_t trial = 0; trial < seed_count(200); ++trial) {
    StepOptions options = draw_options(rng);
    options.form = CostForm::kCollective;
    const PlanJudge judge(draw_sections(rng, 1 + rng() % 30), options);
    ASSERT_EQ(judge.choose(), best_plan(judge.model()));
    ASSERT_EQ(judge.played_end_s(judge.choose()), step_end_s(judge.model(), judge.choose()));
  }
}

}  // namespace
}  // namespace starling
