// Which sections are selected and sent together, so that a step ends as early as it can.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compression/plan/step_model.h"

namespace starling {

// Buckets in the order of backward. Bucket i holds the sections from ends[i - 1] (0 for the first) to ends[i] - 1.
struct MergePlan {
  std::vector<uint32_t> ends;  // ascending; the last is the number of sections
  bool operator==(const MergePlan&) const = default;
};

// Seconds since backward began. After the last bucket's send_end_s come its tail and the latency, and no step ends
// before all is applied.
struct BucketTimes {
  uint32_t first = 0, last = 0;  // sections
  double select_begin_s = 0, select_end_s = 0;
  double send_begin_s = 0, send_end_s = 0;
};

struct StepTimes {
  std::vector<BucketTimes> buckets;
  double compute_end_s = 0;  // backward and selection
  double end_s = 0;          // all is there
};

// Is this a plan for so many sections?
bool is_plan(const MergePlan& plan, size_t section_count);

// REQUIRES: is_plan(plan, model.count()), here and below.
StepTimes step_times(const StepModel& model, const MergePlan& plan);
double step_end_s(const StepModel& model, const MergePlan& plan);

// The plan that ends first, of all 2^(n - 1). Exact, whatever the costs. A dynamic program over sections keeps, for
// each number of sections done, every pair (compute end, send end) that no other undercuts in both. A later bucket ends
// no earlier when either is greater. Of equally fast plans it gives one in which each cut gains something.
// It takes O(n^2) steps times the pairs kept, which are few.
MergePlan best_plan(const StepModel& model);

// The plans it is compared with.
MergePlan plan_per_section(size_t section_count);  // LAGS-SGD (arXiv:1911.08727)
MergePlan plan_one_bucket(size_t section_count);
// As PyTorch's DistributedDataParallel: a bucket is closed once its fp32 gradients fill `bytes`, the first one once
// they fill 1 MiB, so that sending begins early.
MergePlan plan_by_bytes(const StepModel& model, uint64_t bytes = 25 << 20);
// The greedy of MGS-SGD: one pass in the order of backward; the open bucket takes the next section where the time that
// it thereby waits is less than the sending time that it saves.
MergePlan plan_greedy(const StepModel& model);

}  // namespace starling
