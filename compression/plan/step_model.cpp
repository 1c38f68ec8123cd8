#include "compression/plan/step_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/check.h"

namespace starling {
namespace {

struct PayloadBytes { double contribution = 0, entry = 0; };

bool is_cost(double value) { return std::isfinite(value) && value >= 0; }

// What a bucket costs a group, while it grows slice by slice.
class GroupLoad {
 public:
  explicit GroupLoad(const StepOptions& options)
      : link_(options.link), members_(options.members), owned_(options.members) {}

  void add(size_t slice, const PayloadBytes& bytes) {
    PayloadBytes& owner = owned_[slice % members_];
    if (owner.contribution == 0) ++owners_;
    for (PayloadBytes* sum : {&owner, &all_}) {
      sum->contribution += bytes.contribution;
      sum->entry += bytes.entry;
    }
  }

  BucketCost cost() const {
    const double others = members_ - 1;
    // Each owner takes a part of every other member, and sends each the entry: 2 messages that both ends handle.
    const double messages = 4 * others * owners_ / members_;
    const double bytes = others / members_ * (all_.contribution + all_.entry);
    BucketCost cost{.send_s = link_.occupancy_s * messages + link_.s_per_byte * bytes, .messages = messages};
    // Alone on the links: first the parts, then the entries, each on the link that has most of them.
    const double alone_s = link_.occupancy_s * (2 * (owners_ - 1) + 2 * others) +
                           link_.s_per_byte * (busiest(&PayloadBytes::contribution) + busiest(&PayloadBytes::entry));
    cost.tail_s = std::max(0.0, alone_s - cost.send_s);
    return cost;
  }

 private:
  // An owner's link carries what it owns to or from every other member; any link, one copy of what others own.
  double busiest(double PayloadBytes::* what) const {
    double most = 0;
    for (const PayloadBytes& owned : owned_) {
      most = std::max({most, (members_ - 1) * owned.*what, all_.*what - owned.*what});
    }
    return most;
  }

  const LinkCost& link_;
  const uint32_t members_;
  double owners_ = 0;                // that the bucket touches
  std::vector<PayloadBytes> owned_;  // by owner
  PayloadBytes all_;
};

// Of each member: sent and taken, in each step of the ring.
double collective_messages(uint32_t members, bool is_dense) { return (is_dense ? 4.0 : 2.0) * (members - 1); }

double collective_send_s(const StepOptions& options, bool is_dense, double contribution_bytes) {
  const double steps = options.members - 1;
  const LinkCost& link = options.link;
  if (!is_dense) return steps * (link.latency_s + contribution_bytes * link.s_per_byte);
  return 2 * steps * (link.latency_s + contribution_bytes / options.members * link.s_per_byte);
}

}  // namespace

StepModel::StepModel(std::vector<double> backward_s, std::vector<uint64_t> elements, std::vector<BucketCost> buckets,
                     double latency_s, double apply_s)
    : elements_(std::move(elements)), buckets_(std::move(buckets)), latency_s_(latency_s), apply_s_(apply_s) {
  STARLING_CHECK(!elements_.empty() && backward_s.size() == count());
  STARLING_CHECK(buckets_.size() == count() * (count() + 1) / 2);
  STARLING_CHECK(is_cost(latency_s) && is_cost(apply_s));
  for (const BucketCost& bucket : buckets_) {
    STARLING_CHECK(is_cost(bucket.select_s) && is_cost(bucket.send_s) && is_cost(bucket.tail_s));
  }
  ready_s_.push_back(0);
  for (const double one : backward_s) {
    STARLING_CHECK(is_cost(one));
    ready_s_.push_back(ready_s_.back() + one);
  }
}

StepModel make_step_model(std::span<const PlanSection> sections, const StepOptions& options) {
  STARLING_CHECK(options.members >= 2);
  const auto codec = make_update_codec(options.codec);
  const bool is_dense = !codec->residual().unsent;
  std::vector<double> backward_s;
  std::vector<uint64_t> elements;
  std::vector<PayloadBytes> bytes;
  for (const PlanSection& section : sections) {
    backward_s.push_back(section.backward_s);
    elements.push_back(section.elements);
    bytes.push_back({static_cast<double>(codec->bytes_max(UpdateRole::kContribution, section.elements)),
                     static_cast<double>(codec->bytes_max(UpdateRole::kEntry, section.elements))});
  }
  const bool is_group = options.form == CostForm::kGroup;
  double all_elements = 0;
  for (const uint64_t count : elements) all_elements += static_cast<double>(count);
  std::vector<BucketCost> buckets;
  for (size_t first = 0; first < sections.size(); ++first) {
    GroupLoad load(options);
    double element_sum = 0, contribution_bytes = 0;
    for (size_t last = first; last < sections.size(); ++last) {
      element_sum += static_cast<double>(elements[last]);
      BucketCost cost;
      if (is_group) {
        load.add(last,
                 {bytes[last].contribution + options.headers.contribution, bytes[last].entry + options.headers.entry});
        cost = load.cost();
        cost.tail_s += options.apply_s_per_element * element_sum;
      } else {
        contribution_bytes += bytes[last].contribution;
        cost.messages = collective_messages(options.members, is_dense);
        cost.send_s = collective_send_s(options, is_dense, contribution_bytes);
      }
      if (!is_dense) cost.select_s = options.select.start_s + options.select.s_per_element * element_sum;
      buckets.push_back(cost);
    }
  }
  const double latency_s = is_group ? 2 * options.link.latency_s : 0;
  const double apply_s = is_group ? options.apply_s_per_element * all_elements : 0;
  return StepModel(std::move(backward_s), std::move(elements), std::move(buckets), latency_s, apply_s);
}

}  // namespace starling
