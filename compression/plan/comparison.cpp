#include "compression/plan/comparison.h"

#include <utility>

namespace starling {
namespace {

PlanRow row_of(std::string name, const PlanJudge& judge, MergePlan plan) {
  PlanRow row{.name = std::move(name), .plan = std::move(plan)};
  const StepModel& model = judge.model();
  row.times = judge.played(row.plan);
  row.form_end_s = step_end_s(model, row.plan);
  for (const BucketTimes& bucket : row.times.buckets) {
    const BucketCost& cost = model.bucket(bucket.first, bucket.last);
    row.select_s += cost.select_s;
    row.messages += cost.messages;
  }
  return row;
}

}  // namespace

PlanComparison compare_plans(const std::vector<PlanSection>& sections, const StepOptions& options) {
  const bool is_group = options.form == CostForm::kGroup;
  PlanComparison result;
  result.sections = sections;
  const PlanJudge judge(sections, options);
  const StepModel& model = judge.model();
  result.best = row_of("best", judge, judge.choose());
  result.by_form = row_of("best by form", judge, best_plan(model));
  result.per_section = row_of(is_group ? "per slice" : "per layer", judge, plan_per_section(model.count()));
  result.one_bucket = row_of("one bucket", judge, plan_one_bucket(model.count()));
  result.by_bytes = row_of("25 MB buckets", judge, plan_by_bytes(model));
  result.greedy = row_of("greedy", judge, plan_greedy(model));
  StepOptions whole = options;
  whole.codec.kind = UpdateKind::kFp32;
  const PlanJudge dense(sections, whole);
  result.dense = row_of("dense", dense, dense.choose());
  return result;
}

}  // namespace starling
