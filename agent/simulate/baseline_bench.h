// What every baseline is run with: trainers on the swarm's genesis and shards, its rate, its scores, the links' times.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/simulate/run.h"
#include "agent/simulate/timed_trainer.h"
#include "gossip/sim/virtual_clock.h"

namespace starling {

struct SimLink {
  double latency_s = 0;    // the mean, jitter included
  double bytes_per_s = 0;  // of a node's uplink and of its downlink; 0: no limit
  double transfer_s(double bytes) const { return bytes_per_s > 0 ? bytes / bytes_per_s : 0; }
};

class BaselineBench {
 public:
  using OnProgress = std::function<void(const std::string& name, uint64_t step)>;
  using Team = std::vector<std::unique_ptr<TimedTrainer>>;

  // All references must outlive the object.
  BaselineBench(const SimulateOptions& options, const SwarmConfig& swarm, SimTask& task, const OnProgress& on_progress);

  const SwarmConfig& swarm() const { return swarm_; }
  size_t agents() const { return options_.agents; }
  const SimLink& link() const { return link_; }
  const std::vector<double>& compute_s() const { return compute_s_; }  // of one step, by agent
  double usual_compute_s() const { return seconds(options_.compute); }
  double slowest_compute_s() const { return slowest_s_; }
  // Bytes of fp32, nothing compressed; known once a team was made.
  double payload() const { return 4.0 * static_cast<double>(param_count_); }
  double rate(double step) const;

  Team make_team();                                              // a trainer for each agent
  Team make_single();                                            // one with all data, or else the team
  bool step(TimedTrainer& trainer, double learning_rate) const;  // false: the loss is not finite any more

  bool wants_score(uint64_t step, uint64_t before) const;
  SimScore score(const View& params) { return task_.score({params.data, params.count}, shards_); }
  CurvePoint point(const std::string& name, double time_s, uint64_t step, double bytes, const SimScore& score) const;
  void progress(const std::string& name, uint64_t step) const { on_progress_(name, step); }

 private:
  std::unique_ptr<TimedTrainer> wrap(const TimedTrainer::Make& make);

  const SimulateOptions& options_;
  const SwarmConfig& swarm_;
  SimTask& task_;
  const OnProgress& on_progress_;
  const uint64_t every_;  // steps between two scores
  SimLink link_;
  std::vector<size_t> shards_;
  std::vector<double> compute_s_;
  double slowest_s_ = 0;
  size_t param_count_ = 0;
  VirtualClock clock_;  // stands still: times are computed
};

}  // namespace starling
