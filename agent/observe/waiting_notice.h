// Says what an agent waits for before it can begin, every few seconds while it waits.
#pragma once

#include <chrono>
#include <string>

#include <spdlog/spdlog.h>

#include "gossip/clock.h"

namespace starling {

class WaitingNotice {
 public:
  explicit WaitingNotice(const Clock& clock) : clock_(clock), next_(clock.now()) {}

  void say(const std::string& what) {
    if (clock_.now() < next_) return;
    next_ = clock_.now() + kEvery;
    spdlog::warn("waiting: {}", what);
  }

 private:
  static constexpr Duration kEvery = std::chrono::seconds(3);

  const Clock& clock_;
  TimePoint next_;
};

}  // namespace starling
