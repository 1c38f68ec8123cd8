// Says what an agent waits for before it can begin: at first every few seconds, then after twice as long each time, up
// to a minute. Another cause begins anew.
#pragma once

#include <algorithm>
#include <cctype>
#include <chrono>
#include <string>

#include <spdlog/spdlog.h>

#include "gossip/clock.h"

namespace starling {

class WaitingNotice {
 public:
  explicit WaitingNotice(const Clock& clock) : clock_(clock), next_(clock.now()) {}

  void say(const std::string& what) {
    const TimePoint now = clock_.now();
    const std::string cause = without_digits(what);
    const bool another = cause != cause_;
    if (now < (another ? next_news_ : next_)) return;
    cause_ = cause;
    pause_ = another ? kFirst : std::min(2 * pause_, kLongest);
    next_ = now + pause_;
    next_news_ = now + kFirst;
    spdlog::warn("waiting: {}", what);
  }

 private:
  static constexpr Duration kFirst = std::chrono::seconds(3);
  static constexpr Duration kLongest = std::chrono::minutes(1);

  // Counts and seconds in a text grow while its cause stays.
  static std::string without_digits(std::string text) {
    std::erase_if(text, [](unsigned char c) { return std::isdigit(c) != 0; });
    return text;
  }

  const Clock& clock_;
  std::string cause_;
  Duration pause_ = kFirst;
  TimePoint next_, next_news_;
};

}  // namespace starling
