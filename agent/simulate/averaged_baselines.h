// The baselines in which all models become their mean after every few steps: all-reduce, also in buckets, a parameter
// server, local SGD.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/simulate/baseline_bench.h"
#include "compression/plan/step_model.h"

namespace starling {

inline constexpr uint32_t kLocalSgdStepsDefault = 8;  // where the swarm's own local_steps is 1

// All-reduce of that many bytes on n nodes. Patarasuk and Yuan 2009 (ring), Thakur, Rabenseifner and Gropp 2005.
struct AllreduceTimes {
  double ring_s = 0;  // 2 (n - 1) messages of 1/n each, one after the other
  // 2 log2(n) messages, each half or double the one before; where n is no power of two, the nodes beyond it first hand
  // theirs to others, and get the mean from them.
  double halving_doubling_s = 0;
  // Two latencies: all send the n-th parts to their owners at once, and the owners send the means to all at once.
  double two_latencies_s = 0;
  double best_s() const;
};
AllreduceTimes allreduce_times(size_t agents, double bytes, const SimLink& link);
// A tensor's gradient, in the order in which backward has them: the last layer's first.
struct ReadyGradient {
  uint64_t elements = 0;
  double backward_s = 0;  // since the one before was there
};
// The parts of a built-in model; each takes as much of backward as it is of the params, as TimedTrainer says.
std::vector<ReadyGradient> ready_gradients(const ModelConfig& model, double backward_s);
// The cost of a step that sends its buckets one after the other: `bytes` of each gradient, in the same order, and the
// seconds that a bucket of so many bytes takes.
StepModel backward_model(const std::vector<ReadyGradient>& gradients, const std::vector<double>& bytes,
                         double latency_s, const std::function<double(double bytes)>& send_s);
// Seconds from the begin of backward until all gradients are averaged, with buckets as PyTorch's
// DistributedDataParallel fills them. A bucket is averaged, by the best form, once its last gradient is there and the
// previous bucket is done. The best of kBucketBytes. REQUIRES: a gradient at least.
inline constexpr uint64_t kBucketBytes[] = {100'000, 1'000'000, 25'000'000};
double bucketed_seconds(const std::vector<ReadyGradient>& gradients, size_t agents, const SimLink& link);

// Every agent sends its gradient to the server and gets the params from it: n payloads over its downlink, n over its
// uplink.
double server_seconds(size_t agents, double bytes, const SimLink& link);

class AveragedBaselines {
 public:
  explicit AveragedBaselines(BaselineBench& bench) : bench_(bench) {}

  std::vector<CurvePoint> allreduce();
  std::vector<CurvePoint> allreduce_buckets();
  std::vector<CurvePoint> parameter_server();
  std::vector<CurvePoint> local_sgd();

 private:
  struct Mark {
    uint64_t step;
    SimScore score;
  };
  // Of averaging gradients: all three take the same steps.
  std::vector<CurvePoint> timed(const std::string& name, double step_s, double step_bytes);
  const std::vector<Mark>& averaged(const std::string& name, uint32_t period, bool with_momentum);

  BaselineBench& bench_;
  std::map<std::pair<uint32_t, bool>, std::vector<Mark>> averaged_;  // one trajectory, timed for several baselines
};

}  // namespace starling
