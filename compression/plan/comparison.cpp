#include "compression/plan/comparison.h"

#include <utility>

namespace starling {
namespace {

PlanRow row_of(std::string name, const StepModel& model, MergePlan plan) {
  PlanRow row{.name = std::move(name), .plan = std::move(plan)};
  row.times = step_times(model, row.plan);
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
  const StepModel model = make_step_model(result.sections, options);
  result.best = row_of("best", model, best_plan(model));
  result.per_section = row_of(is_group ? "per slice" : "per layer", model, plan_per_section(model.count()));
  result.one_bucket = row_of("one bucket", model, plan_one_bucket(model.count()));
  result.by_bytes = row_of("25 MB buckets", model, plan_by_bytes(model));
  result.greedy = row_of("greedy", model, plan_greedy(model));
  StepOptions whole = options;
  whole.codec.kind = UpdateKind::kFp32;
  const StepModel dense = make_step_model(result.sections, whole);
  result.dense = row_of("dense", dense, best_plan(dense));
  return result;
}

}  // namespace starling
