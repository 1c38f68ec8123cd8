// How many threads to compute a step with. All cores are best for an agent that has the machine to itself. Beside
// another agent, or a compiler, they may be by far the worst: threads of a step that wait for each other by spinning
// occupy the cores that a descheduled thread needs. Threads that sleep early (process/sleeping_threads.h) suffer less,
// but the environment may let them spin. An agent cannot know what
// else the machine does, but it can measure: now and then it tries half or twice as many threads for a few steps, and
// keeps the faster number. A trial is a small part of the time, and each one that fails doubles the pause before the
// next.
#pragma once

#include <cstdint>

#include "gossip/clock.h"

namespace starling {

class ThreadTuner {
 public:
  explicit ThreadTuner(uint32_t most);  // starts with that many; REQUIRES: most >= 1

  uint32_t threads() const { return trial_ > 0 ? trial_ : chosen_; }  // for the next steps
  uint32_t chosen() const { return chosen_; }                         // between trials: the fastest so far
  void took(uint64_t steps, Duration duration, TimePoint now);        // says how long steps with threads() took

 private:
  // Steps measured together.
  struct Window {
    uint64_t steps = 0;
    double seconds = 0;
    bool full() const;
    double seconds_per_step() const { return seconds / static_cast<double>(steps); }
  };
  void end_window(TimePoint now);
  void end_trial(TimePoint now);
  void begin_trial();

  const uint32_t most_;
  uint32_t chosen_;
  uint32_t trial_ = 0;            // 0: none is under way
  bool upwards_ = false;          // the next trial is of more threads
  uint32_t windows_to_skip_ = 1;  // LibTorch's first steps also allocate
  Window window_;
  double usual_s_ = 0;  // a step's time with `chosen_`; 0: not measured
  uint32_t pause_;      // before the next trial, in durations of the last one
  TimePoint next_trial_{};
};

}  // namespace starling
