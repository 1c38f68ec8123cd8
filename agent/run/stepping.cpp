#include "agent/run/stepping.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/train/schedule.h"
#include "gossip/limits.h"

namespace starling {
namespace {

constexpr uint64_t kRoundsApart = 16;       // at most, of members in step that were not cut off
constexpr double kNewcomerRampSteps = 100;  // its momentum starts at zero, and its data may be new to the swarm
constexpr double kDiverged = 10;            // times the first loss
constexpr uint64_t kRoundsToJudge = 20;
constexpr Duration kPauseMin = std::chrono::seconds(3);  // shorter pauses cost less than the news of them
constexpr int64_t kPauseFactor = 3;                      // times the usual time from one step to the next

}  // namespace

Stepping::Stepping(const SwarmConfig& swarm, Trainer& trainer, const ModelMemory& model, SwarmClock& swarm_clock,
                   const Clock& clock)
    : trainer_(trainer),
      model_(model),
      swarm_clock_(swarm_clock),
      clock_(clock),
      optimizer_(swarm.optimizer),
      agreed_stop_(swarm.stop_after),
      stop_after_(swarm.stop_after),
      local_steps_(swarm.local_steps),
      in_step_(shares_updates(swarm.exchange)),
      pace_(swarm, trainer.data().samples),
      stop_(std::make_shared<std::atomic<bool>>(false)) {}

void Stepping::start(const Progress& from, bool newcomer) {
  progress_ = from;
  first_step_ = from.steps;
  newcomer_ = newcomer;
  pace_.start(clock_.now());
}

void Stepping::go_back(const Progress& to) {
  progress_ = to;
  loss_.reset();
}

// Records of others are old by a while. Members in step end with the same round all the same, or as soon as one has
// ended: who took more rounds than the others would move the replica towards its own data. One that says so long before
// the end lies, unless no other trains any more and this agent was away. One that ended at an earlier stop has not
// heard yet that the run is longer.
void Stepping::look_at_swarm() {
  swarm_steps_ = swarm_clock_.steps(progress_.steps, pace_.steps_per_s(), in_step_);
  if (in_step_) swarm_steps_ = std::max(swarm_steps_, progress_.steps);
  if (run_ended_ || stop_after_ <= ended_at_) swarm_steps_ = std::max(swarm_steps_, stop_after_);
  if (!in_step_ || stop_after_ == 0) return;
  const SwarmClock::Tally now = others();
  const bool near_end = left() <= kRoundsApart * local_steps_;
  if (now.ended > 0 && (near_end || now.to_train == 0)) swarm_steps_ = std::max(swarm_steps_, stop_after_);
}

SwarmClock::Tally Stepping::others() const {
  const uint64_t raised = stop_after_ > agreed_stop_ ? stop_after_ : 0;
  return swarm_clock_.tally(
      [raised](const Member& member) { return answered(member) && member.record.meta.stop_after >= raised; });
}

Duration Stepping::pause_after() const { return std::max(kPauseMin, kPauseFactor * pace_.usual_step()); }

TimePoint Stepping::pauses_at() const {
  const TimePoint last = trainer_.last_step();
  return paused() || last == TimePoint::max() ? TimePoint::max() : last + pause_after();
}

bool Stepping::begins_pause() {
  const TimePoint last = trainer_.last_step();
  if (paused() || last == TimePoint::max() || clock_.now() < last + pause_after()) return false;
  paused_since_ = last;
  *stop_ = true;
  return true;
}

// They may have left when the pause ends.
void Stepping::look_at_end() {
  const SwarmClock::Tally now = others();
  if (stop_after_ == 0 || now.to_train > 0) {
    run_ended_ = false;
  } else if (now.ended > 0) {
    run_ended_ = true;
  }
}

// The others went on meanwhile, and the clock follows them as if this agent had.
void Stepping::end_pause(StepReport& report) {
  look_at_end();
  const Duration time = clock_.now() - *std::exchange(paused_since_, std::nullopt);
  report.compute_time = std::max(Duration::zero(), report.compute_time - time);
  pace_.paused(time);
  swarm_clock_.paused(seconds(time) * pace_.steps_per_s());
}

void Stepping::begin(uint32_t count, std::function<bool(const FinalPart&)> on_final, std::span<float> landing) {
  *stop_ = stopped_;
  trainer_.start_steps({count, learning_rate(), model_.correction(), std::move(on_final), landing,
                        [stop = stop_] { return stop->load(); }});
}

TimePoint Stepping::end() const { return std::max(clock_.now(), trainer_.idle_at()); }

bool Stepping::take() {
  StepReport report = trainer_.take_steps();
  if (paused()) end_pause(report);
  const TimePoint now = clock_.now();
  progress_.steps += report.steps;
  taken_ += report.steps;
  progress_.samples += report.samples;
  pace_.stepped(report, now);
  threads_ = report.threads;
  if (report.steps > 0) loss_ = loss_ ? 0.9 * *loss_ + 0.1 * report.mean_loss : report.mean_loss;
  if (report.steps > 0 && report.finite) watch_loss();
  if (pace_.measure_rate(now)) {
    pace_.weigh(swarm_clock_.median_rate(pace_.steps_per_s()));
    pace_.limit_mass(kMassRatioMax * swarm_clock_.median_mass(pace_.mass()));
  }
  if (report.finite) recovery_.took_good_steps(now);
  return report.finite;
}

void Stepping::watch_loss() {
  const bool beginning = first_step_ > 0 && rounds_taken_ < kRoundsToJudge;
  if (!first_loss_ || beginning) first_loss_ = std::max(first_loss_, loss_);
  ++rounds_taken_;
  const bool above = *first_loss_ > 0 && *loss_ > kDiverged * *first_loss_;  // a likelihood may begin below 0
  rounds_above_ = above ? rounds_above_ + 1 : 0;
  if (rounds_above_ > kRoundsToJudge) ++rounds_diverging_;
}

double Stepping::learning_rate() const {
  const double ramp = static_cast<double>(progress_.steps - first_step_ + 1) / kNewcomerRampSteps;
  const double scheduled = schedule_factor(optimizer_, swarm_steps_, stop_after_);
  return optimizer_.learning_rate * scheduled * recovery_.rate_scale() * (newcomer_ ? std::min(1.0, ramp) : 1);
}

}  // namespace starling
