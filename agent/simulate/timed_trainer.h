// Any trainer on virtual time: its steps are computed at once, whatever they cost, and it is busy until count *
// step_time has passed on the clock. Evaluation takes no virtual time. So a swarm of real models replays to the byte.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "agent/train/trainer.h"

namespace starling {

class TimedTrainer final : public Trainer {
 public:
  static constexpr int kForwardPart = 3;  // forward takes a third of a step, backward the rest

  // Makes the trainer that does the work; it calls what it is given, from any thread, each time it becomes idle. One
  // that works on the caller's thread need not.
  using Make = std::function<std::unique_ptr<Trainer>(std::function<void()> on_idle)>;

  // `clock` must outlive the trainer.
  TimedTrainer(const Make& make, const Clock& clock, Duration step_time);

  std::vector<TrainerSection> sections() override;
  void params_changed() override;
  void draw_genesis() override { inner_->draw_genesis(); }
  void start_steps(const LocalSteps& steps) override;
  std::string early_send_blocked_reason() const override { return inner_->early_send_blocked_reason(); }
  void start_evaluation() override;
  TimePoint idle_at() const override { return clock_.now() >= idle_at_ ? TimePoint::min() : idle_at_; }
  TimePoint last_step() const override { return idle() ? TimePoint::max() : held_since_; }
  StepReport take_steps() override;
  std::optional<Evaluation> take_evaluation() override;
  std::vector<std::byte> save_state() override;
  bool load_state(std::span<const std::byte> state) override;
  TrainerData data() const override { return inner_->data(); }

  // As a loop of its own that pauses: its steps under way end so much later. REQUIRES: it is busy.
  void hold(Duration time);

  Trainer& inner() { return *inner_; }
  // Steps already applied to params() but not yet returned by take_steps(). For observers.
  StepReport untaken() const { return taken_ ? StepReport{} : report_; }
  // The params that the last steps began with, so the model as its agent evaluates it; params() before any steps.
  View evaluated_params() { return evaluated_.empty() ? params() : View{evaluated_.data(), evaluated_.size()}; }

 private:
  void wait();
  void tell_final(const LocalSteps& steps, const std::vector<FinalPart>& parts, size_t elements);

  const Clock& clock_;
  const Duration step_time_;
  std::mutex mutex_;
  std::condition_variable became_idle_;
  std::unique_ptr<Trainer> inner_;  // after what its thread signals
  StepReport report_;
  std::vector<float> evaluated_;
  bool taken_ = true;
  TimePoint idle_at_;
  TimePoint held_since_ = TimePoint::max();  // by hold(); max: not in these steps
};

}  // namespace starling
