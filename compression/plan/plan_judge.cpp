#include "compression/plan/plan_judge.h"

#include <utility>

#include "compression/plan/plan_replay.h"

namespace starling {

PlanJudge::PlanJudge(std::vector<PlanSection> sections, const StepOptions& options)
    : sections_(std::move(sections)), options_(options), model_(make_step_model(sections_, options_)) {}

StepTimes PlanJudge::played(const MergePlan& plan) const {
  StepTimes times = step_times(model_, plan);
  return is_group() ? replay_group(sections_, times, options_).times : times;
}

MergePlan PlanJudge::choose() const {
  const size_t count = model_.count();
  MergePlan chosen = best_plan(model_);
  if (!is_group()) return chosen;
  double end_s = played_end_s(chosen);
  for (const MergePlan& other :
       {plan_one_bucket(count), plan_by_bytes(model_), plan_greedy(model_), plan_per_section(count)}) {
    const double other_s = played_end_s(other);
    if (other_s >= end_s) continue;
    chosen = other;
    end_s = other_s;
  }
  // Round and round, until each cut that is left was tried against the same others.
  for (size_t cut = 0, in_vain = 0; in_vain + 1 < chosen.ends.size();) {
    if (cut + 1 >= chosen.ends.size()) cut = 0;
    MergePlan fewer = chosen;
    fewer.ends.erase(fewer.ends.begin() + static_cast<std::ptrdiff_t>(cut));
    const double fewer_s = played_end_s(fewer);
    if (fewer_s <= end_s) {
      chosen = fewer;
      end_s = fewer_s;
      in_vain = 0;
    } else {
      ++cut;
      ++in_vain;
    }
  }
  return chosen;
}

}  // namespace starling
