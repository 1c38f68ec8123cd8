// Time enters by constructor. Timers use this monotonic clock only; wall time never decides anything.
#pragma once

#include <chrono>

namespace starling {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline Duration from_seconds(double s) { return Duration(static_cast<int64_t>(s * 1e9)); }

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;  // monotonic; under simulation it moves only between ticks
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()); }
};

}  // namespace starling
