#include "agent/run/pace.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "gossip/limits.h"

namespace starling {
namespace {

constexpr uint64_t kOverlapWindowRounds = 32;
constexpr double kBoundaryPartMax = 0.1;  // of a round: from there on exchanges run beside the steps
constexpr Duration kRateWindow = std::chrono::seconds(2);
constexpr Duration kStepsAlone = std::chrono::milliseconds(50);
constexpr double kStepsAloneMax = 64;

// Models are averaged between the steps unless the settings say `on`: averages of old models do not learn where data
// differ. Updates bear it.
Overlap choose_overlap(const ExchangeConfig& exchange) {
  const bool models = exchange.source == SourceKind::kParams;
  return models && exchange.overlap == Overlap::kAuto ? Overlap::kOff : exchange.overlap;
}

}  // namespace

double choose_mass(const std::string& weight, double relative_rate, uint64_t data_size, double before) {
  if (weight == "equal") return 1;
  if (!(relative_rate > 0)) return before;
  const double share = weight == "data" ? std::max<double>(1, static_cast<double>(data_size)) : 1;
  const double exact = share / std::clamp(relative_rate, 1 / kRateRatioMax, kRateRatioMax);
  if (before > 0 && exact < before * 1.5 && before < exact * 1.5) return before;
  return std::exp2(std::round(2 * std::log2(exact)) / 2);
}

Pace::Pace(const SwarmConfig& swarm, uint64_t data_size)
    : weight_(swarm.weight),
      data_size_(data_size),
      round_(swarm.round),
      overlap_choice_(choose_overlap(swarm.exchange)),
      overlap_(swarm.exchange.overlap == Overlap::kOn) {}

void Pace::start(TimePoint now) {
  mass_ = choose_mass(weight_, 1, data_size_, 0);
  boundary_began_ = rate_window_began_ = round_began_ = now;
}

void Pace::stepped(const StepReport& report, TimePoint now) {
  rate_window_steps_ += report.steps;
  window_compute_ += report.compute_time;
  times_.stepped(report);
  if (report.steps > 0) step_time_ = (now - round_began_) / static_cast<int64_t>(report.steps);
  boundary_began_ = now;
}

std::optional<double> Pace::round_begins(TimePoint now, Duration late) {
  window_boundary_ += now - boundary_began_;
  times_.stood_still(now - boundary_began_);
  round_began_ = late < round_ ? now - late : now;
  if (overlap_choice_ != Overlap::kAuto || ++window_rounds_ < kOverlapWindowRounds) return std::nullopt;
  const double waiting = seconds(window_boundary_), computing = seconds(window_compute_);
  window_rounds_ = 0;
  window_boundary_ = window_compute_ = Duration::zero();
  if (overlap_ || !(waiting > kBoundaryPartMax * (waiting + computing))) return std::nullopt;
  overlap_ = true;
  return waiting / (waiting + computing);
}

Duration Pace::usual_step() const {
  return std::max(step_time_, steps_per_s_ > 0 ? from_seconds(1 / steps_per_s_) : Duration::zero());
}

void Pace::paused(Duration time) {
  round_began_ += time;
  rate_window_began_ += time;
}

Duration Pace::expected(uint32_t steps) const { return round_ > Duration::zero() ? round_ : steps * step_time_; }

uint32_t Pace::steps_left(uint32_t steps, Duration late) const {
  const bool in_time = late <= Duration::zero() || step_time_ <= Duration::zero() || round_ > Duration::zero();
  if (in_time || late + step_time_ >= steps * step_time_) return steps;
  return steps - static_cast<uint32_t>(late / step_time_) - 1;
}

bool Pace::round_goes_on(TimePoint now) const { return round_ > Duration::zero() && now - round_began_ < round_; }

uint32_t Pace::steps_alone(uint64_t left) const {
  const double some = std::clamp(seconds(kStepsAlone) * steps_per_s_, 1.0, kStepsAloneMax);
  return static_cast<uint32_t>(std::min(static_cast<uint64_t>(some), left));
}

bool Pace::measure_rate(TimePoint now) {
  const Duration elapsed = now - rate_window_began_;
  if (elapsed < kRateWindow) return false;
  const double rate = static_cast<double>(rate_window_steps_) / seconds(elapsed);
  steps_per_s_ = steps_per_s_ == 0 ? rate : 0.5 * (steps_per_s_ + rate);
  rate_window_began_ = now;
  rate_window_steps_ = 0;
  times_.end_window();
  return true;
}

void Pace::weigh(double swarm_steps_per_s) {
  mass_ = choose_mass(weight_, steps_per_s_ / swarm_steps_per_s, data_size_, mass_);
}

}  // namespace starling
