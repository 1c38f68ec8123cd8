#include "agent/simulate/baseline_bench.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "agent/train/schedule.h"

namespace starling {

BaselineBench::BaselineBench(const SimulateOptions& options, const SwarmConfig& swarm, SimTask& task,
                             const OnProgress& on_progress)
    : options_(options),
      swarm_(swarm),
      task_(task),
      on_progress_(on_progress),
      every_(steps_between_scores(options, swarm.stop_after)),
      shards_(options.agents) {
  link_ = {seconds(options.latency) + 0.5 * seconds(options.jitter), options.bytes_per_s};
  std::iota(shards_.begin(), shards_.end(), 0);
  for (size_t a = 0; a < options.agents; ++a) {
    compute_s_.push_back(seconds(step_time_of(options, a)));
    slowest_s_ = std::max(slowest_s_, compute_s_.back());
  }
}

double BaselineBench::rate(double step) const {
  return swarm_.optimizer.learning_rate *
         schedule_factor(swarm_.optimizer, static_cast<uint64_t>(step), swarm_.stop_after);
}

bool BaselineBench::wants_score(uint64_t step, uint64_t before) const {
  return step / every_ != before / every_ || step == swarm_.stop_after;
}

std::unique_ptr<TimedTrainer> BaselineBench::wrap(const TimedTrainer::Make& make) {
  auto trainer = std::make_unique<TimedTrainer>(make, clock_, Duration::zero());
  param_count_ = trainer->params().count;
  return trainer;
}

BaselineBench::Team BaselineBench::make_team() {
  Team team;
  for (size_t a = 0; a < agents(); ++a) {
    team.push_back(
        wrap([&](std::function<void()> on_idle) { return task_.make(a, swarm_, clock_, std::move(on_idle)); }));
  }
  return team;
}

BaselineBench::Team BaselineBench::make_single() {
  if (!task_.has_trainer_for_all()) return make_team();
  Team team;
  team.push_back(
      wrap([this](std::function<void()> on_idle) { return task_.make_for_all(swarm_, clock_, std::move(on_idle)); }));
  return team;
}

bool BaselineBench::step(TimedTrainer& trainer, double learning_rate) const {
  trainer.start_steps({1, learning_rate});
  return trainer.take_steps().finite;
}

CurvePoint BaselineBench::point(const std::string& name, double time_s, uint64_t step, double bytes,
                                const SimScore& score) const {
  CurvePoint point{name, std::nullopt, time_s};
  point.step = step;
  point.samples = step * agents() * swarm_.batch;
  point.bytes = static_cast<uint64_t>(std::llround(bytes));
  point.score = score;
  return point;
}

}  // namespace starling
