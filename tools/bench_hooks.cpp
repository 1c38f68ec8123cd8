// What telling of final parts and planning costs a step: processor time of the trainer's thread, steps that tell beside
// steps that do not, in interleaved pairs, on drawn digits and one thread; and of the thread that feeds the planner and
// makes its plans, as an agent does after each round. The exchanges that it is told of are made up. Prints one line of
// JSON; both together: the sum of the two, pair by pair.
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
#include "agent/share/plan_maker.h"
#include "agent/train/torch_trainer.h"

namespace starling {
namespace {

constexpr int kPairs = 60, kSteps = 50;  // steps of each half of a pair, by turns: a busy machine hits both halves
constexpr double kT95 = 2.001;           // quantile .975 of Student's t with 59 degrees of freedom
constexpr uint32_t kMembers = 8;

double thread_time(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds a step.
struct Took {
  std::array<double, 2> step{};  // of the trainer's thread: steps that do not tell, and those that do
  double planner = 0;            // of the thread that plans
};

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
    const UpdateOptions codec{.kind = UpdateKind::kTopk, .density = 0.01};
    if (slices_.size() > 1) planner_ = std::make_unique<PlanMaker>(slices_, codec);  // as an agent does
    for (uint32_t end = 1; end <= slices_.size(); ++end) alone_.push_back(end);
    step(false);
  }
  size_t params() { return trainer_->params().count; }
  size_t slices() const { return slices_.size(); }
  uint64_t plans() const { return plans_; }

  Took measure(bool first) {
    Took took;
    for (int i = 0; i < 2 * kSteps; ++i) {
      const bool tells = (i % 2 == 0) == first;
      const double before = thread_time(clock_);
      step(tells);
      const double step_s = thread_time(clock_) - before;
      took.step[tells] += step_s / kSteps;
      if (!tells || !planner_) continue;
      const double began = thread_time(CLOCK_THREAD_CPUTIME_ID);
      plan(from_seconds(step_s));
      took.planner += (thread_time(CLOCK_THREAD_CPUTIME_ID) - began) / kSteps;
    }
    return took;
  }

 private:
  void step(bool tells) {
    LocalSteps steps{1, 0.01, {}, {}};
    if (tells) {
      final_->begin_step(buckets_);
      steps.on_final = [this](const FinalPart& part) { return final_->add(part); };
    }
    trainer_->start_steps(steps);
    while (!trainer_->idle()) woken_.acquire();
    while (woken_.try_acquire()) {
    }
    (void)trainer_->take_steps();
  }

  // What UpdateSharing does with the planner before a step and after its round. A round is told to have taken no longer
  // than its step, so that the planner's part is one of steps alone.
  void plan(Duration step) {
    planner_->begin_round();
    const std::vector<uint32_t> trial = planner_->trial_ends();
    const std::vector<uint32_t>& ends = trial.empty() ? alone_ : trial;
    std::vector<Duration> final_after;
    for (size_t slice = slices_.size(); slice-- > 0;) final_after.push_back(std::chrono::microseconds(100 * slice));
    planner_->add_step(final_after);
    uint32_t before = 0;
    for (const uint32_t end : ends) {
      size_t elements = 0;
      for (; before < end; ++before) elements += slices_[before].count;
      planner_->add_selection(elements, std::chrono::nanoseconds(5000 + elements / 2));
    }
    // Slices that wait for the boundary are sent after it: 100 us a message, 10 Mb/s, 1 ms.
    const uint64_t after = 1 + planner_->held_back(), frames = ends.size() == 1 ? 1 : after;
    const uint64_t messages = 2 * (kMembers - 1) * frames, bytes = 1000 * after;
    const auto took = std::chrono::microseconds(2000 + 100 * messages + bytes * 8 / 10);
    planner_->add_exchange(messages, bytes, took);
    planner_->add_round(ends, step);
    const double began = thread_time(CLOCK_THREAD_CPUTIME_ID);
    const auto thought = planner_->think(kMembers, alone_);
    if (!thought) return;
    thought->run();
    planner_->add_thought(from_seconds(thread_time(CLOCK_THREAD_CPUTIME_ID) - began));
    (void)planner_->choose(*thought);
    ++plans_;
  }

  std::counting_semaphore<> woken_{0};  // before the trainer, whose thread uses it
  std::atomic<bool> known_ = false;
  clockid_t clock_{};
  std::vector<SliceRange> slices_;
  std::vector<uint32_t> buckets_;
  std::unique_ptr<FinalSlices> final_;
  std::unique_ptr<PlanMaker> planner_;
  std::vector<uint32_t> alone_;  // each slice
  uint64_t plans_ = 0;           // made
  std::unique_ptr<Trainer> trainer_;
};

// Mean of all pairs, and half of its 95 % interval.
std::array<double, 2> interval(const std::vector<double>& parts) {
  const double mean = std::accumulate(parts.begin(), parts.end(), 0.0) / kPairs;
  double squares = 0;
  for (const double part : parts) squares += (part - mean) * (part - mean);
  return {mean, kT95 * std::sqrt(squares / (kPairs - 1) / kPairs)};
}

int run(const std::vector<int64_t>& hidden) {
  SwarmConfig swarm;
  swarm.model.kind = "mlp";
  swarm.model.hidden = hidden;
  swarm.optimizer.kind = "sgd";
  swarm.batch = 16;
  Bench bench(swarm);
  (void)bench.measure(true);
  std::vector<double> telling, planning, both;
  double step = 0;
  for (int pair = 0; pair < kPairs; ++pair) {
    const Took took = bench.measure(pair % 2 == 0);
    telling.push_back(100 * (took.step[1] / took.step[0] - 1));
    planning.push_back(100 * took.planner / took.step[0]);
    both.push_back(telling.back() + planning.back());
    step += took.step[0] / kPairs;
  }
  const nlohmann::ordered_json found = {{"params", bench.params()},
                                        {"slices", bench.slices()},
                                        {"pairs", kPairs},
                                        {"plans", bench.plans()},
                                        {"step_us", 1e6 * step},
                                        {"telling_percent", interval(telling)},
                                        {"planning_percent", interval(planning)},
                                        {"both_percent", interval(both)}};
  std::cout << found.dump() << std::endl;
  return bench.plans() > 0 || bench.slices() == 1 ? 0 : 1;  // else no plan was measured
}

}  // namespace
}  // namespace starling

int main(int argc, char** argv) {
  std::vector<int64_t> hidden;
  for (int i = 1; i < argc; ++i) hidden.push_back(std::atoi(argv[i]));
  if (hidden.empty()) hidden = {64};
  return starling::run(hidden);
}
