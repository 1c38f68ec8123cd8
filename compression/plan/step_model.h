// What one training step costs, for every bucket that a plan could make: the planner's only input.
//
// Backward finishes section after section. A bucket is a run of sections: when its last one is complete, its largest
// elements are selected, on the processor that also computes backward; then it is sent, while backward goes on. Buckets
// are sent one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compression/plan/sections.h"
#include "compression/update_codec.h"

namespace starling {

struct BucketCost {
  double select_s = 0;
  double send_s = 0;    // until the next bucket can be sent
  double tail_s = 0;    // and from then until all of it is there, and applied: counts for the last bucket, others
                        //   hide it
  double messages = 0;  // that each member sends or takes
};

class StepModel {
 public:
  // `buckets`: of the sections 0..0, 0..1, ..., 0..n-1, 1..1, ... REQUIRES: n (n + 1) / 2 of them; no time is negative
  // or not finite.
  StepModel(std::vector<double> backward_s, std::vector<uint64_t> elements, std::vector<BucketCost> buckets,
            double latency_s, double apply_s = 0);

  size_t count() const { return elements_.size(); }
  const BucketCost& bucket(size_t first, size_t last) const {  // REQUIRES: first <= last < count()
    return buckets_[first * count() - first * (first + 1) / 2 + last];
  }
  // From the end of section first - 1 to the end of `last`, without selection.
  double backward_s(size_t first, size_t last) const { return ready_s_[last + 1] - ready_s_[first]; }
  double backward_s() const { return ready_s_.back(); }
  uint64_t elements(size_t section) const { return elements_[section]; }
  double latency_s() const { return latency_s_; }  // once, after all else
  // Backward reads the params, so no entry is applied before it has ended; then each as it comes. So long after
  // backward and selection the next step can begin at the earliest.
  double apply_s() const { return apply_s_; }

 private:
  std::vector<double> ready_s_;  // when section i - 1 is complete, if nothing is selected; 0 first
  std::vector<uint64_t> elements_;
  std::vector<BucketCost> buckets_;
  double latency_s_, apply_s_;
};

// How buckets reach the others.
enum class CostForm {
  // Our streams. Each section is a slice with an owner, dealt in turn. A bucket costs messages (a part to each owner
  // that it touches, the entries back) and bytes on each link. Buckets follow each other on the links without waiting
  // for the replies, and owners of neighboring slices differ, so a bucket takes its even share of every processor and
  // link. It is there when the busiest owner has all parts and has sent its entries. Messages are under way together,
  // so the latency there and back is paid once.
  kGroup,
  // As MGS-SGD assumes: each bucket is one collective call, and they run one after the other. Sparse: a ring
  // all-gather, (n - 1) (latency + bytes / rate). Dense: a ring all-reduce, 2 (n - 1) (latency + bytes / (n rate)).
  kCollective,
};

struct LinkCost {
  double latency_s = 0;    // one way
  double s_per_byte = 0;   // of each direction of a member's link
  double occupancy_s = 0;  // of a processor, for each message sent or taken; kGroup only
};

// Of one pass over a bucket of so many elements.
struct SelectCost {
  double start_s = 0;
  double s_per_element = 0;
};

// topk on one core of a server, within what tools/bench_plan measures there.
inline constexpr SelectCost kHostTopk{.start_s = 5e-6, .s_per_element = 0.45e-9};

// Bytes that a message adds to the payload of a slice; kGroup only. None where the occupancy was fitted to exchanges,
// for it holds them then.
struct HeaderBytes { double contribution = 0, entry = 0; };

struct StepOptions {
  CostForm form = CostForm::kGroup;
  uint32_t members = 8;  // at least 2
  UpdateOptions codec;   // fp32, bf16: nothing is selected
  LinkCost link;
  SelectCost select;
  HeaderBytes headers;             // of a group
  double apply_s_per_element = 0;  // of a group: of an entry, when backward has ended
};

// Seconds an element on one core of a server (tools/bench_plan). kHostDrift: the drift of a step joins the accumulator,
// before selection. kHostApply: the params become the replica, and the norm of what waits is summed.
inline constexpr double kHostDrift = 1.0e-9, kHostApply = 1.6e-9;

// REQUIRES: sections without a fault, costs that are finite and not negative.
StepModel make_step_model(std::span<const PlanSection> sections, const StepOptions& options);

}  // namespace starling
