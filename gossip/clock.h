// Time enters by constructor. Timers use the monotonic clock only. The wall clock decides one thing: when a membership
// ends.
#pragma once

#include <chrono>
#include <cstdint>

namespace starling {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline Duration from_seconds(double s) { return Duration(static_cast<int64_t>(s * 1e9)); }

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;                   // monotonic; under simulation it moves only between ticks
  virtual uint64_t unix_seconds() const { return 0; }  // of the wall clock, since 1970; 0: there is none
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()); }
  uint64_t unix_seconds() const override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(now).count());
  }
};

}  // namespace starling
