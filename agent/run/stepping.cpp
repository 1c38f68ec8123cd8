#include "agent/run/stepping.h"

#include <algorithm>
#include <utility>

#include "agent/train/schedule.h"
#include "gossip/limits.h"

namespace starling {
namespace {

constexpr uint64_t kRoundsApart = 16;        // at most, of members in step that were not cut off
constexpr double kNewcomerRampSteps = 100;   // its momentum starts at zero, and its data may be new to the swarm

}  // namespace

Stepping::Stepping(const SwarmConfig& swarm, Trainer& trainer, const ModelMemory& model, SwarmClock& swarm_clock,
                   const Clock& clock)
    : trainer_(trainer), model_(model), swarm_clock_(swarm_clock), clock_(clock), optimizer_(swarm.optimizer),
      stop_after_(swarm.stop_after), local_steps_(swarm.local_steps), in_step_(shares_updates(swarm.exchange)),
      pace_(swarm, trainer.data().samples) {}

void Stepping::start(const Progress& from, bool newcomer) {
  progress_ = from;
  first_step_ = from.steps;
  newcomer_ = newcomer;
  pace_.start(clock_.now());
}

void Stepping::go_back(const Progress& to) {
  progress_ = to;
  loss_ = 0;
}

// Records of others are old by a while. Members in step end with the same round all the same, or as soon as one has
// ended: who took more rounds than the others would move the replica towards its own data. One that says so long before
// the end lies, unless no other trains any more and this agent was away.
void Stepping::look_at_swarm() {
  swarm_steps_ = swarm_clock_.steps(progress_.steps, pace_.steps_per_s());
  if (!in_step_) return;
  swarm_steps_ = std::max(swarm_steps_, progress_.steps);
  if (stop_after_ == 0) return;
  const SwarmClock::Tally others = swarm_clock_.tally();
  const bool near_end = left() <= kRoundsApart * local_steps_;
  if (others.ended > 0 && (near_end || others.to_train == 0)) swarm_steps_ = std::max(swarm_steps_, stop_after_);
}

void Stepping::begin(uint32_t count, std::function<bool(const FinalPart&)> on_final, std::span<float> landing) {
  trainer_.start_steps({count, learning_rate(), model_.correction(), std::move(on_final), landing});
}

TimePoint Stepping::end() const { return std::max(clock_.now(), trainer_.idle_at()); }

bool Stepping::take() {
  const StepReport report = trainer_.take_steps();
  const TimePoint now = clock_.now();
  progress_.steps += report.steps;
  taken_ += report.steps;
  progress_.samples += report.samples;
  pace_.stepped(report, now);
  threads_ = report.threads;
  if (report.steps > 0) loss_ = loss_ == 0 ? report.mean_loss : 0.9 * loss_ + 0.1 * report.mean_loss;
  if (pace_.measure_rate(now)) {
    pace_.weigh(swarm_clock_.median_rate(pace_.steps_per_s()));
    pace_.limit_mass(kMassRatioMax * swarm_clock_.median_mass(pace_.mass()));
  }
  if (report.finite) recovery_.took_good_steps(now);
  return report.finite;
}

double Stepping::learning_rate() const {
  const double ramp = static_cast<double>(progress_.steps - first_step_ + 1) / kNewcomerRampSteps;
  const double scheduled = schedule_factor(optimizer_, swarm_steps_, stop_after_);
  return optimizer_.learning_rate * scheduled * recovery_.rate_scale() * (newcomer_ ? std::min(1.0, ramp) : 1);
}

}  // namespace starling
