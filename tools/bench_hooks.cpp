// What telling of final parts costs a step: processor time of the trainer's thread, steps that tell beside steps that
// do not, in interleaved pairs, on drawn digits and one thread. Prints one line of JSON.
//
//   bench_hooks [HIDDEN...]       an mlp with these hidden layers; else 64
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <numeric>
#include <semaphore>
#include <vector>

#include <nlohmann/json.hpp>

#include "agent/config/config.h"
#include "agent/data/dataset.h"
#include "agent/share/final_slices.h"
#include "agent/train/torch_trainer.h"

namespace starling {
namespace {

constexpr int kPairs = 60, kSteps = 50;   // steps of each half of a pair, by turns: a busy machine hits both halves
constexpr double kT95 = 2.001;            // quantile .975 of Student's t with 59 degrees of freedom

class Bench {
 public:
  explicit Bench(const SwarmConfig& swarm) {
    AgentConfig agent;
    agent.device = "cpu";
    agent.threads = 1;
    const auto wake = [this] {
      if (!known_.exchange(true)) pthread_getcpuclockid(pthread_self(), &clock_);
      woken_.release();
    };
    trainer_ = make_torch_trainer(trainer_options(swarm, agent), draw_digits(2000, 1, 0), draw_digits(10, 1, 1), wake);
    std::vector<size_t> whole{trainer_->params().count};
    slices_ = cut_slices(whole);
    final_ = std::make_unique<FinalSlices>(slices_);
    buckets_.resize(slices_.size());
    std::iota(buckets_.begin(), buckets_.end(), 0);
    step(false);
  }
  size_t params() { return trainer_->params().count; }
  size_t slices() const { return slices_.size(); }

  // Seconds a step of the trainer's thread: steps that do not tell, and those that do.
  std::array<double, 2> measure(bool first) {
    std::array<double, 2> took{};
    for (int i = 0; i < 2 * kSteps; ++i) {
      const bool tells = (i % 2 == 0) == first;
      const double before = now();
      step(tells);
      took[tells] += (now() - before) / kSteps;
    }
    return took;
  }

 private:
  void step(bool tells) {
    LocalSteps steps{1, 0.01, {}, {}};
    if (tells) {
      final_->begin_step(buckets_);
      steps.on_final = [this](const FinalPart& part) { final_->add(part); };
    }
    trainer_->start_steps(steps);
    while (!trainer_->idle()) woken_.acquire();
    while (woken_.try_acquire()) {}
    (void)trainer_->take_steps();
  }
  double now() const {
    timespec time{};
    clock_gettime(clock_, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  std::counting_semaphore<> woken_{0};   // before the trainer, whose thread uses it
  std::atomic<bool> known_ = false;
  clockid_t clock_{};
  std::vector<SliceRange> slices_;
  std::vector<uint32_t> buckets_;
  std::unique_ptr<FinalSlices> final_;
  std::unique_ptr<Trainer> trainer_;
};

int run(const std::vector<int64_t>& hidden) {
  SwarmConfig swarm;
  swarm.model.kind = "mlp";
  swarm.model.hidden = hidden;
  swarm.optimizer.kind = "sgd";
  swarm.batch = 16;
  Bench bench(swarm);
  (void)bench.measure(true);
  std::vector<double> parts;
  double step = 0;
  for (int pair = 0; pair < kPairs; ++pair) {
    const auto [whole, told] = bench.measure(pair % 2 == 0);
    parts.push_back(100 * (told / whole - 1));
    step += whole / kPairs;
  }
  const double mean = std::accumulate(parts.begin(), parts.end(), 0.0) / kPairs;
  double squares = 0;
  for (const double part : parts) squares += (part - mean) * (part - mean);
  const double half = kT95 * std::sqrt(squares / (kPairs - 1) / kPairs);
  const nlohmann::ordered_json found = {
      {"params", bench.params()}, {"slices", bench.slices()},  {"pairs", kPairs}, {"step_us", 1e6 * step},
      {"telling_percent", mean},  {"interval95", half}};
  std::cout << found.dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace starling

int main(int argc, char** argv) {
  std::vector<int64_t> hidden;
  for (int i = 1; i < argc; ++i) hidden.push_back(std::atoi(argv[i]));
  if (hidden.empty()) hidden = {64};
  return starling::run(hidden);
}
