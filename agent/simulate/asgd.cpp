#include "agent/simulate/asgd.h"

#include <algorithm>
#include <utility>

namespace starling {

AsgdTimeline::AsgdTimeline(std::vector<double> compute_s, const SimLink& link, double payload_bytes)
    : compute_s_(std::move(compute_s)), link_(link), transfer_s_(link.transfer_s(payload_bytes)) {
  for (size_t worker = 0; worker < compute_s_.size(); ++worker) compute(worker, 0);
}

AsgdTimeline::Arrival AsgdTimeline::next() {
  for (;;) {
    const auto [when, event] = *events_.begin();
    events_.erase(events_.begin());
    if (event.arrived) return {when.first, event.worker};
    in_free_s_ = std::max(in_free_s_, when.first) + transfer_s_;
    events_[{in_free_s_ + link_.latency_s, sequence_++}] = {event.worker, true};
  }
}

void AsgdTimeline::send_params(const Arrival& answered) {
  out_free_s_ = std::max(out_free_s_, answered.time_s) + transfer_s_;
  compute(answered.worker, out_free_s_ + link_.latency_s);
}

}  // namespace starling
