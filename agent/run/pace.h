// How fast this agent trains, and what follows from it: its mass in the swarm's mean, whether exchanges run beside the
// steps, and how many steps are taken at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/config/config.h"
#include "agent/run/step_parts.h"
#include "agent/train/trainer.h"
#include "gossip/clock.h"

namespace starling {

// An agent's weight in the swarm's mean. Its model moves 1/rate as often as others. So "uniform" gives 1/rate, "data"
// data_size/rate, "equal" 1. The rate is relative to the swarm's median, so that an agent of unknown rate weighs as
// much as the others. Rounded to a power of sqrt(2), so that equal machines get the same mass; `before` is kept while
// the exact value is within a factor 1.5 of it. 0 = no mass yet.
double choose_mass(const std::string& weight, double relative_rate, uint64_t data_size, double before);

class Pace {
 public:
  Pace(const SwarmConfig& swarm, uint64_t data_size);

  void start(TimePoint now);

  // Steps have ended, and a boundary begins.
  void stepped(const StepReport& report, TimePoint now);
  // Of the boundary, an evaluation or a checkpoint took so long; it does not count as cost of the exchange.
  void job_took(Duration duration) {
    boundary_began_ += duration;
    times_.job_took(duration);
  }
  // The boundary ends. With `overlap: auto`, long boundaries turn overlap on: then returns the fraction of a round that
  // they took.
  // `late`: it began so long before, for the others.
  std::optional<double> round_begins(TimePoint now, Duration late);
  // Of so many steps that the others began `late` ago, those that are left, at least one. All of them in rounds of a
  // duration, which end earlier instead.
  uint32_t steps_left(uint32_t steps, Duration late) const;

  Duration usual_step() const;  // from one to the next, the longer one of the last round's and the rate's; 0: not known
  void paused(Duration time);   // before stepped(): no steps were taken for so long, which is not their rate
  Duration expected(uint32_t steps) const;  // how long so many take, as the last did; 0: not known

  // If rounds have a duration: whether this one has time left, so that the agent takes more steps. Otherwise false.
  bool round_goes_on(TimePoint now) const;
  bool overlap() const { return overlap_; }
  // Without an exchange, several steps are run per call to save thread hand-overs; at most `left`.
  uint32_t steps_alone(uint64_t left) const;

  // Ends the window of the rate when it is long enough. True: steps_per_s() has changed, and the mass may follow it.
  [[nodiscard]] bool measure_rate(TimePoint now);
  double steps_per_s() const { return steps_per_s_; }  // 0: not known yet
  StepParts& times() { return times_; }                // of the same windows
  const StepParts& times() const { return times_; }
  void weigh(double swarm_steps_per_s);  // the swarm's median
  void limit_mass(double most) { mass_ = mass_ < most ? mass_ : most; }
  double mass() const { return mass_; }

 private:
  std::string weight_;
  uint64_t data_size_;
  Duration round_;
  Overlap overlap_choice_;
  bool overlap_;
  double steps_per_s_ = 0, mass_ = 1;
  Duration step_time_{};  // of the last round
  TimePoint boundary_began_, rate_window_began_, round_began_;
  uint64_t rate_window_steps_ = 0;
  uint64_t window_rounds_ = 0;  // since overlap was last decided
  Duration window_boundary_{}, window_compute_{};
  StepParts times_;
};

}  // namespace starling
