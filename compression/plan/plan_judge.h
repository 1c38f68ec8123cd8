// Which of the plans that could be taken ends first when it is played.
//
// The best plan by a group's cost form is a forecast: it counts an even share of every link, and played message by
// message it ended up to 8 % later than one bucket a slice. So it is taken only where it also wins when it is played.
#pragma once

#include <vector>

#include "compression/plan/merge_plan.h"

namespace starling {

class PlanJudge {
 public:
  // REQUIRES: as make_step_model().
  PlanJudge(std::vector<PlanSection> sections, const StepOptions& options);

  const StepModel& model() const { return model_; }
  // Collective calls run one after the other, so there is nothing to play: their form is exact.
  StepTimes played(const MergePlan& plan) const;
  double played_end_s(const MergePlan& plan) const { return played(plan).end_s; }

  // Of best_plan() and those that it is compared with, the one that ends first when played; then without the cuts that
  // gain nothing. So no plan that one would make without the planner is faster.
  MergePlan choose() const;

 private:
  bool is_group() const { return options_.form == CostForm::kGroup; }

  const std::vector<PlanSection> sections_;
  const StepOptions options_;
  const StepModel model_;
};

}  // namespace starling
