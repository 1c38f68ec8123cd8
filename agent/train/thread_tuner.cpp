#include "agent/train/thread_tuner.h"

#include <algorithm>

#include "kernels/check.h"

namespace starling {
namespace {

constexpr uint64_t kWindowSteps = 8;
constexpr double kWindowSeconds = 0.25;  // slow steps are judged one by one
constexpr double kWorthwhile = 0.9;      // of the usual time: a smaller gain may be chance
constexpr double kMuchWorse = 2;         // times the usual: the machine has other work, so try fewer at once
constexpr uint32_t kPauseMin = 8, kPauseMax = 512;

}  // namespace

bool ThreadTuner::Window::full() const { return steps >= kWindowSteps || (steps > 0 && seconds >= kWindowSeconds); }

ThreadTuner::ThreadTuner(uint32_t most) : most_(most), chosen_(most), pause_(kPauseMin) { STARLING_CHECK(most >= 1); }

void ThreadTuner::took(uint64_t steps, Duration duration, TimePoint now) {
  if (most_ == 1 || steps == 0) return;
  window_.steps += steps;
  window_.seconds += seconds(duration);
  if (!window_.full()) return;
  if (windows_to_skip_ > 0) {
    --windows_to_skip_;
  } else if (trial_ > 0) {
    end_trial(now);
  } else {
    end_window(now);
  }
  window_ = {};
}

void ThreadTuner::end_window(TimePoint now) {
  const double step_s = window_.seconds_per_step();
  const bool crowded = chosen_ > 1 && usual_s_ > 0 && step_s > kMuchWorse * usual_s_;
  usual_s_ = usual_s_ > 0 && !crowded ? 0.5 * (usual_s_ + step_s) : step_s;
  if (!crowded && now < next_trial_) return;
  if (crowded) upwards_ = false;
  begin_trial();
}

void ThreadTuner::begin_trial() {
  if (chosen_ == 1) upwards_ = true;
  if (chosen_ == most_) upwards_ = false;
  trial_ = upwards_ ? std::min(2 * chosen_, most_) : chosen_ / 2;
}

void ThreadTuner::end_trial(TimePoint now) {
  const double step_s = window_.seconds_per_step();
  if (step_s < kWorthwhile * usual_s_) {
    chosen_ = trial_;
    usual_s_ = step_s;
    pause_ = kPauseMin;
  } else {
    upwards_ = !upwards_;
    pause_ = std::min(2 * pause_, kPauseMax);
  }
  trial_ = 0;
  next_trial_ = now + from_seconds(pause_ * window_.seconds);
}

}  // namespace starling
