// How long to wait for a partner: the median of recent durations plus a margin in units of their spread. Late arrivals
// are recorded too. Without them a deadline that is too short would see only the fast arrivals and never grow.
#pragma once

#include <algorithm>
#include <optional>

#include "gossip/clock.h"
#include "gossip/exchange/robust_window.h"

namespace starling {

class AdaptiveDeadline {
 public:
  static constexpr double kSpread = 4;            // margin in units of the deviation
  static constexpr double kDeviationFloor = 0.1;  // times the median: a steady series still needs a margin
  static constexpr size_t kSamplesMin = 8;        // with fewer samples current() is the longest deadline

  // REQUIRES: 0 < min <= max.
  AdaptiveDeadline(Duration min, Duration max) : min_(min), max_(max), current_(max) {}

  void arrived(Duration after) { add(seconds(after)); }

  // Nothing arrived within `deadline`: recorded as twice that deadline.
  void missed(Duration deadline) { add(2 * seconds(deadline)); }

  // Median of the recorded durations, late ones included, not clamped to [min, max]; 0: not known yet.
  Duration usual() const { return known() ? from_seconds(median_s_) : Duration::zero(); }

  // The same of however few were recorded; nullopt: none yet.
  std::optional<Duration> so_far() const {
    return seconds_.size() == 0 ? std::nullopt : std::optional(from_seconds(median_s_));
  }

  bool known() const { return seconds_.size() >= kSamplesMin; }

  // A quarter of what was recorded came within this; 0: not known yet.
  Duration fast() const { return known() ? from_seconds(seconds_.lower_quartile()) : Duration::zero(); }

  Duration current() const { return current_; }

 private:
  // Asked for on every tick, and recorded once an exchange.
  void add(double duration_s) {
    seconds_.add(duration_s);
    median_s_ = seconds_.median();
    if (!known()) return;
    const double deviation = std::max(seconds_.deviation(median_s_), kDeviationFloor * median_s_);
    current_ = std::clamp(from_seconds(median_s_ + kSpread * deviation), min_, max_);
  }

  Duration min_, max_, current_;
  RobustWindow seconds_;
  double median_s_ = 0;
};

}  // namespace starling
