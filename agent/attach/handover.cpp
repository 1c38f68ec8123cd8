#include "agent/attach/handover.h"

#include <chrono>
#include <cmath>
#include <utility>

#include <spdlog/spdlog.h>

namespace starling {
namespace {

constexpr Duration kStatePatience = std::chrono::seconds(60);

}  // namespace

void Handover::set_wake(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

Handover::Answer Handover::answer(std::unique_lock<std::mutex>& lock, Duration patience) {
  const auto something = [this] { return with_loop_ || over_ || wants_state_ || !error_.empty(); };
  to_loop_.wait_for(lock, patience, something);
  if (!error_.empty()) return Answer::kFailed;
  if (wants_state_) return Answer::kStateWanted;
  if (over_) return Answer::kOver;
  if (!with_loop_) return Answer::kAgain;
  const bool changed = std::exchange(fresh_, false);
  if (has_restored_) return Answer::kRestored;  // until the loop has taken it, or a step
  return changed ? Answer::kChanged : Answer::kGo;
}

void Handover::hand_over(std::unique_lock<std::mutex>& lock) {
  with_loop_ = params_wanted_ = false;
  taken_back_ = clock_.now();
  const auto wake = wake_;
  lock.unlock();
  if (wake) wake();
  lock.lock();
}

// A step that was taken in the agent's turn, after an exception in the loop, say, or where the params were wanted, is
// not counted.
Handover::Answer Handover::step(uint64_t samples, double loss, Duration patience) {
  std::unique_lock lock(mutex_);
  const bool within_round = with_loop_ && !fresh_;
  if (params_wanted_) return Answer::kParamsWanted;
  if (!within_round || (over_ && !whole_rounds_)) return answer(lock, patience);
  last_step_ = clock_.now();
  ++steps_;
  has_restored_ = false;
  state_.reset();  // it was of the params before
  ++report_.steps;
  report_.samples += samples;
  loss_sum_ += loss;
  report_.finite = report_.finite && std::isfinite(loss);
  const bool cut = !report_.finite || (asked_.stop && asked_.stop());
  if (report_.steps < asked_.count && (whole_rounds_ || !cut)) return Answer::kGo;
  params_wanted_ = copies_;
  if (params_wanted_) return Answer::kParamsWanted;
  hand_over(lock);
  return answer(lock, patience);
}

Handover::Answer Handover::wait(Duration patience) {
  std::unique_lock lock(mutex_);
  if (params_wanted_) hand_over(lock);
  return answer(lock, patience);
}

void Handover::add_loss(double loss) {
  const std::lock_guard lock(mutex_);
  if (!with_loop_) return;
  loss_sum_ += loss;
  report_.finite = report_.finite && std::isfinite(loss);
}

void Handover::give_state(std::span<const std::byte> state) {
  const std::lock_guard lock(mutex_);
  if (!has_restored_) {  // a loop that has not taken it has a fresh one
    state_.emplace(state.begin(), state.end());
    ++states_given_;
    no_state_ = false;
    restored_ = nullptr;
    keeps_state_ |= !state.empty();
  }
  wants_state_ = false;
  last_state_ = over_;
  to_worker_.notify_all();
}

void Handover::has_no_state() {
  const std::lock_guard lock(mutex_);
  no_state_ = true;
  wants_state_ = false;
  to_worker_.notify_all();
}

void Handover::finishing() {
  const std::lock_guard lock(mutex_);
  if (!over_) return;
  last_state_ = true;
  wants_state_ = false;
  to_worker_.notify_all();
}

std::shared_ptr<const Handover::Bytes> Handover::restored() const {
  const std::lock_guard lock(mutex_);
  return restored_;
}

void Handover::report(const Evaluation& evaluation) {
  const std::lock_guard lock(mutex_);
  evaluation_ = evaluation;
}

void Handover::leave() {
  std::unique_lock lock(mutex_);
  left_ = true;
  wants_state_ = false;
  to_worker_.notify_all();
  hand_over(lock);
}

void Handover::give(const LocalSteps& steps) {
  const std::lock_guard lock(mutex_);
  asked_ = steps;
  report_ = {};
  loss_sum_ = 0;
  given_ = last_step_ = taken_back_ = clock_.now();
  with_loop_ = !left_ && !over_;  // else the steps end at once, and there are none
  fresh_ = with_loop_;
  to_loop_.notify_all();
}

bool Handover::with_agent() const {
  const std::lock_guard lock(mutex_);
  return !with_loop_;
}

TimePoint Handover::last_step() const {
  const std::lock_guard lock(mutex_);
  return with_loop_ ? last_step_ : TimePoint::max();
}

StepReport Handover::take() const {
  const std::lock_guard lock(mutex_);
  StepReport report = report_;
  if (report.steps > 0) report.mean_loss = loss_sum_ / static_cast<double>(report.steps);
  report.compute_time = taken_back_ - given_;
  return report;
}

bool Handover::has_evaluation() const {
  const std::lock_guard lock(mutex_);
  return evaluation_.has_value();
}

std::optional<Evaluation> Handover::take_evaluation() {
  const std::lock_guard lock(mutex_);
  return std::exchange(evaluation_, std::nullopt);
}

// The state may be larger than the model, so it is kept only until the loop's next step: a loop that leaves before that
// need not give it again.
Handover::Bytes Handover::ask_for_state() {
  std::unique_lock lock(mutex_);
  if (has_restored_) return *restored_;
  if (left_ || last_state_) return last_state();
  if (!error_.empty()) throw StateMissing("the agent has ended: " + error_);
  const uint64_t before = states_given_;
  wants_state_ = true;
  to_loop_.notify_all();
  const bool answered = to_worker_.wait_for(lock, kStatePatience, [this] { return !wants_state_; });
  wants_state_ = false;
  if (left_ || last_state_) return last_state();
  if (states_given_ != before) return *state_;
  throw StateMissing(
      answered ? "the loop has no state of its optimizer to give now"
               : "the loop gave no state of its optimizer within a minute; let it call step() until that answers that "
                 "the run is over");
}

Handover::Bytes Handover::last_state() {
  if (state_) return *state_;
  if (restored_) return *restored_;  // the loop could not take it
  if (no_state_ && !over_) {
    throw StateMissing(
        "the loop left and had no state of its optimizer to give, so the checkpoint before stays the last one");
  }
  if (keeps_state_) {
    spdlog::warn(
        "the loop gave no state of its optimizer after its last step, so a restart begins with a fresh one. Let the "
        "loop give one before it finishes");
  }
  return {};
}

void Handover::restore(std::span<const std::byte> state) {
  const std::lock_guard lock(mutex_);
  restored_ = std::make_shared<Bytes>(state.begin(), state.end());
  has_restored_ = true;
  state_.reset();
}

void Handover::took_restored() {
  const std::lock_guard lock(mutex_);
  has_restored_ = false;
}

void Handover::end(const std::string& error) {
  const std::lock_guard lock(mutex_);
  over_ = true;
  if (!error.empty()) {
    error_ = error;
    wants_state_ = false;
    to_worker_.notify_all();
  }
  to_loop_.notify_all();
}

std::string Handover::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

bool Handover::over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

uint64_t Handover::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

uint64_t Handover::steps_left() const {
  const std::lock_guard lock(mutex_);
  return with_loop_ ? asked_.count - report_.steps : 0;
}

double Handover::rate() const {
  const std::lock_guard lock(mutex_);
  return asked_.learning_rate;
}

}  // namespace starling
