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

// All-reduce of that many bytes on n nodes. Patarasuk and Yuan 2009 (ring), Thakur, Rabenseifner and Gropp 2005.
struct AllreduceTimes {
  double ring_s = 0;               // 2 (n - 1) messages of 1/n each, one after the other
  // 2 log2(n) messages, each half or double the one before; where n is no power of two, the nodes beyond it first hand
  // theirs to others, and get the mean from them.
  double halving_doubling_s = 0;
  // Two latencies: all send the n-th parts to their owners at once, and the owners send the means to all at once.
  double two_latencies_s = 0;
  double best_s() const;
};
AllreduceTimes allreduce_times(size_t agents, double bytes, const SimLink& link);
// Every agent sends its gradient to the server and gets the params from it: n payloads over its downlink, n over its
// uplink.
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
