// Says what is wrong while an agent runs: at once when it is something new, and again every minute while it lasts.
#pragma once

#include <chrono>
#include <string>

#include <spdlog/spdlog.h>

#include "gossip/clock.h"

namespace starling {

class TroubleNotice {
 public:
  explicit TroubleNotice(const Clock& clock) : clock_(clock) {}

  void say(const std::string& what) {
    const TimePoint now = clock_.now();
    const bool due = said_.empty() || now >= next_ || (what != said_ && now >= next_news_);
    if (!due) return;
    said_ = what;
    next_ = now + kEvery;
    next_news_ = now + kNewsEvery;
    spdlog::warn("{}", what);
  }

 private:
  static constexpr Duration kEvery = std::chrono::minutes(1);
  static constexpr Duration kNewsEvery = std::chrono::seconds(10);  // foreign texts may change all the time

  const Clock& clock_;
  std::string said_;
  TimePoint next_, next_news_;
};

}  // namespace starling
