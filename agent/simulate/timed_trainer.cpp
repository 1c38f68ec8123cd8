#include "agent/simulate/timed_trainer.h"

#include "kernels/check.h"

namespace starling {

TimedTrainer::TimedTrainer(const Make& make, const Clock& clock, Duration step_time)
    : clock_(clock),
      step_time_(step_time),
      inner_(make([this] {
        const std::lock_guard lock(mutex_);  // otherwise the wake could fall between the check and the wait
        became_idle_.notify_one();
      })),
      idle_at_(clock.now()) {
  STARLING_CHECK(step_time >= Duration::zero());
}

void TimedTrainer::wait() {
  std::unique_lock lock(mutex_);
  while (!inner_->idle()) became_idle_.wait_for(lock, std::chrono::seconds(1));
}

std::vector<TrainerSection> TimedTrainer::sections() {
  STARLING_CHECK(idle());
  return inner_->sections();
}

void TimedTrainer::params_changed() {
  STARLING_CHECK(idle());
  inner_->params_changed();
}

void TimedTrainer::start_steps(const LocalSteps& steps) {
  STARLING_CHECK(idle());
  const View before = params();
  evaluated_.assign(before.data, before.data + before.count);
  std::vector<FinalPart> parts;
  LocalSteps inner = steps;
  if (steps.on_final) {
    inner.on_final = [&parts](const FinalPart& part) {
      parts.push_back(part);
      return false;
    };
  }
  inner_->start_steps(inner);
  wait();
  report_ = inner_->take_steps();
  report_.compute_time = static_cast<int64_t>(report_.steps) * step_time_;  // the real one differs from run to run
  report_.forward_time = report_.compute_time / kForwardPart;
  report_.backward_time = report_.compute_time - report_.forward_time;
  idle_at_ = clock_.now() + report_.compute_time;
  held_since_ = TimePoint::max();
  taken_ = false;
  if (report_.finite) tell_final(steps, parts, before.count);
}

// The inner trainer computes its parts in this order. Each is as much of backward as it is of the params.
void TimedTrainer::tell_final(const LocalSteps& steps, const std::vector<FinalPart>& parts, size_t elements) {
  const TimePoint half = clock_.now() + report_.forward_time;
  size_t done = 0;
  for (FinalPart part : parts) {
    done += part.count;
    part.at =
        half + from_seconds(seconds(report_.backward_time) * static_cast<double>(done) / static_cast<double>(elements));
    (void)steps.on_final(part);
  }
}

void TimedTrainer::hold(Duration time) {
  STARLING_CHECK(!idle());
  held_since_ = clock_.now();
  idle_at_ += time;
}

void TimedTrainer::start_evaluation() {
  STARLING_CHECK(idle());
  inner_->start_evaluation();
  wait();
}

StepReport TimedTrainer::take_steps() {
  STARLING_CHECK(idle());
  taken_ = true;
  return report_;
}

std::optional<Evaluation> TimedTrainer::take_evaluation() {
  STARLING_CHECK(idle());
  return inner_->take_evaluation();
}

std::vector<std::byte> TimedTrainer::save_state() {
  STARLING_CHECK(idle());
  return inner_->save_state();
}

bool TimedTrainer::load_state(std::span<const std::byte> state) {
  STARLING_CHECK(idle());
  return inner_->load_state(state);
}

}  // namespace starling
