// The times of the baseline asgd: a server applies each gradient on arrival, to params that have changed since the
// gradient was computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "agent/simulate/baseline_bench.h"

namespace starling {

// When each gradient arrives: all gradients enter, and all params leave, through the server's one link, one after the
// other.
class AsgdTimeline {
 public:
  struct Arrival {
    double time_s;
    size_t worker;
  };
  // All workers begin to compute at time 0. `payload_bytes`: of a gradient, and of the params.
  AsgdTimeline(std::vector<double> compute_s, const SimLink& link, double payload_bytes);

  Arrival next();                             // of a gradient, in the order of time
  void send_params(const Arrival& answered);  // that worker computes its next gradient once it has them

 private:
  struct Event {
    size_t worker;
    bool arrived;  // else computed: it now waits for the server's link
  };
  void compute(size_t worker, double start_s) {
    events_[{start_s + compute_s_[worker], sequence_++}] = {worker, false};
  }

  const std::vector<double> compute_s_;
  const SimLink link_;
  const double transfer_s_;
  std::map<std::pair<double, uint64_t>, Event> events_;  // by time, then by order
  uint64_t sequence_ = 0;
  double in_free_s_ = 0, out_free_s_ = 0;
};

}  // namespace starling
