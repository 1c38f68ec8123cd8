// The baselines in which all models become their mean after every few steps: all-reduce, a parameter server, local SGD.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/simulate/baseline_bench.h"

namespace starling {

inline constexpr uint32_t kLocalSgdStepsDefault = 8;   // where the swarm's own local_steps is 1

// Ring all-reduce of that many bytes: 2 (n - 1) messages of 1/n each, one after the other.
double allreduce_seconds(size_t agents, double bytes, const SimLink& link);
// Every agent sends its gradient and gets the params: 2 n payloads over the server's one link.
double server_seconds(size_t agents, double bytes, const SimLink& link);

class AveragedBaselines {
 public:
  explicit AveragedBaselines(BaselineBench& bench) : bench_(bench) {}

  std::vector<CurvePoint> allreduce(bool server);   // server: timed as a parameter server
  std::vector<CurvePoint> local_sgd();

 private:
  struct Mark {
    uint64_t step;
    SimScore score;
  };
  const std::vector<Mark>& averaged(const std::string& name, uint32_t period, bool with_momentum);

  BaselineBench& bench_;
  std::map<std::pair<uint32_t, bool>, std::vector<Mark>> averaged_;   // one trajectory, timed for several baselines
};

}  // namespace starling
