// The baseline asgd: a server applies each gradient on arrival, to params that have changed since the gradient was
// computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "agent/config/config.h"
#include "agent/simulate/baseline_bench.h"
#include "agent/simulate/timed_trainer.h"

namespace starling {

class AsgdServer {
 public:
  // Begins with the first worker's params, and without momentum.
  AsgdServer(std::vector<TimedTrainer*> workers, const OptimizerConfig& optimizer);

  // The gradient of one of this worker's batches at the params as they are now. False: it is not finite.
  bool compute(size_t worker, std::vector<float>* gradient);
  // For n workers at 1/n of the learning rate: n gradients then move the params as far as one step on their mean.
  void apply(const std::vector<float>& gradient, double learning_rate);

  View params() { return {params_.data(), params_.size(), MemorySpace::kHost}; }

 private:
  const std::vector<TimedTrainer*> workers_;
  const OptimizerConfig& optimizer_;
  std::vector<float> params_, momentum_;
};

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

  Arrival next();                              // of a gradient, in the order of time
  void send_params(const Arrival& answered);   // that worker computes its next gradient once it has them

 private:
  struct Event {
    size_t worker;
    bool arrived;   // else computed: it now waits for the server's link
  };
  void compute(size_t worker, double start_s) {
    events_[{start_s + compute_s_[worker], sequence_++}] = {worker, false};
  }

  const std::vector<double> compute_s_;
  const SimLink link_;
  const double transfer_s_;
  std::map<std::pair<double, uint64_t>, Event> events_;   // by time, then by order
  uint64_t sequence_ = 0;
  double in_free_s_ = 0, out_free_s_ = 0;
};

}  // namespace starling
