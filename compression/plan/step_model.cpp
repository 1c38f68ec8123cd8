#include "compression/plan/step_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/check.h"

namespace starling {
namespace {

struct PayloadBytes {
  double contribution = 0, entry = 0;
};

bool is_cost(double value) { return std::isfinite(value) && value >= 0; }

// Bytes on the two directions of each member's link, and who owns part of a bucket, while the bucket grows by slices.
class GroupLoad {
 public:
  explicit GroupLoad(uint32_t members) : members_(members), up_(members), down_(members), owns_(members) {}

  void add(size_t slice, const PayloadBytes& bytes) {
    const size_t owner = slice % members_;
    const double others = members_ - 1;
    for (size_t member = 0; member < members_; ++member) {
      up_[member] += member == owner ? others * bytes.entry : bytes.contribution;
      down_[member] += member == owner ? others * bytes.contribution : bytes.entry;
    }
    if (!owns_[owner]) ++owners_;
    owns_[owner] = true;
  }

  double busiest_bytes() const {
    return std::max(*std::max_element(up_.begin(), up_.end()), *std::max_element(down_.begin(), down_.end()));
  }
  // Of an owner, who has most: its parts to the other owners and their entries back; a part of each other member and
  // the entry to it.
  double busiest_messages() const { return 2.0 * (owners_ - 1) + 2.0 * (members_ - 1); }

 private:
  uint32_t members_, owners_ = 0;
  std::vector<double> up_, down_;
  std::vector<bool> owns_;
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
                     double latency_s)
    : elements_(std::move(elements)), buckets_(std::move(buckets)), latency_s_(latency_s) {
  STARLING_CHECK(!elements_.empty() && backward_s.size() == count());
  STARLING_CHECK(buckets_.size() == count() * (count() + 1) / 2);
  STARLING_CHECK(is_cost(latency_s));
  for (const BucketCost& bucket : buckets_) STARLING_CHECK(is_cost(bucket.select_s) && is_cost(bucket.send_s));
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
  std::vector<BucketCost> buckets;
  for (size_t first = 0; first < sections.size(); ++first) {
    GroupLoad load(options.members);
    double element_sum = 0, contribution_bytes = 0;
    for (size_t last = first; last < sections.size(); ++last) {
      element_sum += static_cast<double>(elements[last]);
      BucketCost cost;
      if (!is_dense) cost.select_s = options.select.start_s + options.select.s_per_element * element_sum;
      if (options.form == CostForm::kGroup) {
        load.add(last, bytes[last]);
        cost.messages = load.busiest_messages();
        cost.send_s = options.link.occupancy_s * cost.messages + options.link.s_per_byte * load.busiest_bytes();
      } else {
        contribution_bytes += bytes[last].contribution;
        cost.messages = collective_messages(options.members, is_dense);
        cost.send_s = collective_send_s(options, is_dense, contribution_bytes);
      }
      buckets.push_back(cost);
    }
  }
  const double latency_s = options.form == CostForm::kGroup ? 2 * options.link.latency_s : 0;
  return StepModel(std::move(backward_s), std::move(elements), std::move(buckets), latency_s);
}

}  // namespace starling
