// The best plan beside the plans that one would make without it, and beside gradients that are sent whole.
#pragma once

#include <string>
#include <vector>

#include "compression/plan/plan_judge.h"

namespace starling {

struct PlanRow {
  std::string name;
  MergePlan plan;
  StepTimes times;  // played
  double form_end_s = 0;
  double select_s = 0;  // of all buckets
  double messages = 0;  // that each member sends or takes in a step
};

struct PlanComparison {
  std::vector<PlanSection> sections;  // that are merged: slices of a group, else layers
  PlanRow best;                       // the one that a judge chooses
  PlanRow by_form;                    // the best one by the form
  PlanRow per_section, one_bucket;    // the naive ones
  PlanRow by_bytes, greedy;           // DDP's buckets; MGS-SGD's greedy
  PlanRow dense;                      // chosen for fp32 gradients

  const PlanRow& better_naive() const {
    return per_section.times.end_s < one_bucket.times.end_s ? per_section : one_bucket;
  }
  bool dense_is_faster() const { return dense.times.end_s <= best.times.end_s; }
};

// `sections` in the order of backward: the slices of a group, else layers. REQUIRES: sections without a fault.
PlanComparison compare_plans(const std::vector<PlanSection>& sections, const StepOptions& options);

}  // namespace starling
