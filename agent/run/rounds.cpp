#include "agent/run/rounds.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/train/schedule.h"
#include "gossip/limits.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr double kNewcomerRampSteps = 100;      // its momentum starts at zero, and its data may be new to the swarm
constexpr Duration kSettlePause = std::chrono::milliseconds(2);
constexpr Duration kStopPatience = std::chrono::milliseconds(300);   // for exchanges in doubt; Ctrl-C ends in 2 s
constexpr Duration kFinishPatience = std::chrono::seconds(2);

}  // namespace

Rounds::Rounds(const RoundsOptions& options, Trainer& trainer, SharedModel& model, Exchange* exchange,
               SwarmSampler& sampler, SwarmClock& swarm_clock, StateKeeper& keeper, Worker& worker, const Clock& clock,
               Observer& observer)
    : options_(options), trainer_(trainer), model_(model), sampler_(sampler), swarm_clock_(swarm_clock),
      clock_(clock), observer_(observer),
      cadence_(options.checkpoint_every, options.evaluate_every), pace_(options.swarm, trainer.data().samples),
      settling_(options.swarm.final_distance, options.swarm.settle_max),
      meetings_(options.swarm.exchange.deadline_min, sampler, settling_, observer), sharing_(model, exchange, worker),
      checkpoints_(keeper, trainer, model, worker, clock, observer, options.on_saved) {}

void Rounds::start(const Progress& from, bool newcomer) {
  STARLING_CHECK(state_ == State::kNotStarted);
  progress_ = from;
  first_step_ = from.steps;
  newcomer_ = newcomer;
  phase_ = Phase::kTraining;
  sampler_.set_round(progress_.round);
  pace_.start(clock_.now());
  cadence_.start(clock_.now());
  state_ = State::kBoundary;
}

void Rounds::stop() {
  stop_asked_ = true;
  sharing_.stop_retrying();
  if (state_ == State::kNotStarted) state_ = State::kEnded;
}

double Rounds::learning_rate() const {
  const OptimizerConfig& optimizer = options_.swarm.optimizer;
  const double ramp = static_cast<double>(progress_.steps - first_step_ + 1) / kNewcomerRampSteps;
  const double scheduled = schedule_factor(optimizer, swarm_steps_, options_.swarm.stop_after);
  return optimizer.learning_rate * scheduled * recovery_.rate_scale() * (newcomer_ ? std::min(1.0, ramp) : 1);
}

TimePoint Rounds::next_deadline() const {
  switch (state_) {
    case State::kBoundary: return clock_.now();
    case State::kPausing: return pause_until_;
    case State::kServing: return sharing_.serving_until().value_or(clock_.now());
    case State::kStepping: return std::max(clock_.now(), trainer_.idle_at());
    default: return TimePoint::max();   // trainer, worker and pairwise wake the control thread themselves
  }
}

void Rounds::tick() {
  meetings_.take(sharing_.take_reports(), progress_.steps, sharing_.params_rms());
  // A state may end within the tick that began it. Every lap but the last changes the state.
  for (int laps = 0; laps < 4; ++laps) {
    const State before = state_;
    switch (state_) {
      case State::kStepping:
        if (trainer_.idle()) after_steps();
        break;
      case State::kEvaluating:
        if (trainer_.idle()) after_evaluation();
        break;
      case State::kSharing:
        sharing_.tick();
        break;
      case State::kServing:
        if (!sharing_.serving_until()) state_ = State::kBoundary;
        break;
      case State::kPausing:
        if (clock_.now() >= pause_until_) state_ = State::kBoundary;
        break;
      case State::kBoundary:
        boundary();
        break;
      case State::kNotStarted:
      case State::kWorking:
      case State::kEnded:
        break;
    }
    if (state_ == before) return;
  }
}

void Rounds::pause(Duration duration) {
  pause_until_ = clock_.now() + duration;
  state_ = State::kPausing;
}

// The first steps of a round.
void Rounds::begin_steps(uint32_t count) {
  state_ = State::kWorking;
  sharing_.begin_round_then([this, count] { start_steps(count); });
}

void Rounds::start_steps(uint32_t count) {
  trainer_.start_steps({count, learning_rate(), model_.correction()});
  state_ = State::kStepping;
}

void Rounds::after_steps() {
  const StepReport report = trainer_.take_steps();
  const TimePoint now = clock_.now();
  progress_.steps += report.steps;
  progress_.samples += report.samples;
  pace_.stepped(report, now);
  if (report.steps > 0) loss_ = loss_ == 0 ? report.mean_loss : 0.9 * loss_ + 0.1 * report.mean_loss;
  if (pace_.measure_rate(now)) {
    pace_.weigh(swarm_clock_.median_rate(pace_.steps_per_s()));
    pace_.limit_mass(kMassRatioMax * swarm_clock_.median_mass(pace_.mass()));
  }
  if (!report.finite) {
    became_sick("the loss or a gradient is not finite");
    return;
  }
  recovery_.took_good_steps(now);
  if (phase_ == Phase::kSick) phase_ = Phase::kTraining;
  if (phase_ == Phase::kTraining && !stop_asked_ && pace_.round_goes_on(now)) {
    start_steps(options_.swarm.local_steps);
  } else {
    state_ = State::kBoundary;
  }
}

// The trainer is idle and no job of ours is running: what is due comes first, then the exchange.
void Rounds::boundary() {
  if (do_what_is_due()) return;
  const TimePoint now = clock_.now();
  const uint64_t stop_after = options_.swarm.stop_after;
  swarm_steps_ = swarm_clock_.steps(progress_.steps);
  if (phase_ == Phase::kTraining && stop_after > 0 && swarm_steps_ >= stop_after) {
    phase_ = Phase::kSettling;
    settling_.begin(now);
    spdlog::info("step {}: settling: exchanges without steps until the models agree", progress_.steps);
  }
  if (phase_ == Phase::kSettling &&
      (sharing_.alone() || settling_.settled(now, swarm_clock_.training_count(), swarm_clock_.taking_part_count()))) {
    finish();
  } else if (!pace_.overlap() && sharing_.serving_until()) {
    state_ = State::kServing;   // it ends soon, and the next snapshot reuses its memory
  } else if (!sharing_.alone() && !(pace_.overlap() && sharing_.under_way())) {
    share();
  } else {
    begin_round();
  }
}

bool Rounds::do_what_is_due() {
  const TimePoint now = clock_.now();
  if (stop_asked_) {
    if (wound_down(kStopPatience)) {
      state_ = State::kWorking;
      sharing_.apply_decided_then([this] { save_then([this] { state_ = State::kEnded; }); });
    }
  } else if (phase_ == Phase::kTraining && cadence_.evaluation_due(now)) {
    evaluate();
  } else if (cadence_.checkpoint_due(now)) {
    save_then([this] {
      cadence_.checkpoint_saved(clock_.now());
      state_ = State::kBoundary;
    });
  } else {
    return false;
  }
  return true;
}

void Rounds::evaluate() {
  trainer_.start_evaluation();
  state_ = State::kEvaluating;
}

void Rounds::after_evaluation() {
  const std::optional<Evaluation> evaluation = trainer_.take_evaluation();
  if (evaluation && evaluation->samples > 0) {
    accuracy_ = evaluation->accuracy;
    observer_.on(Evaluated{progress_.steps, evaluation->accuracy, evaluation->loss});
  }
  pace_.boundary_resumed(clock_.now());
  cadence_.evaluated(clock_.now());
  if (settling_.final_evaluation_begun()) {
    finish();
  } else {
    state_ = State::kBoundary;
  }
}

// Begins no new exchange and waits until every open, doubtful or unacknowledged one has ended, because partners have
// applied, or will apply, their halves. False: not yet, and the boundary repeats.
bool Rounds::wound_down(Duration patience) {
  if (!wind_down_until_) {
    sharing_.publish_nothing();
    wind_down_until_ = clock_.now() + patience;
  }
  if (sharing_.idle() || clock_.now() >= *wind_down_until_) return true;
  pause(kSettlePause);
  return false;
}

void Rounds::finish() {
  if (settling_.final_evaluation_begun()) {
    phase_ = Phase::kFinished;
    save_then([this] { state_ = State::kEnded; });
  } else if (wound_down(kFinishPatience)) {
    settling_.begin_final_evaluation();
    state_ = State::kWorking;
    sharing_.apply_decided_then([this] { evaluate(); });
  }
}

void Rounds::share() {
  const bool settles = phase_ == Phase::kSettling;
  state_ = State::kSharing;
  sharing_.share(progress_.round, pace_.mass(), settles || !pace_.overlap(), [this](bool healthy) {
    if (!healthy) {
      became_sick("the params are not finite");
    } else if (stop_asked_) {
      state_ = State::kBoundary;
    } else {
      begin_round();
    }
  });
}

void Rounds::begin_round() {
  if (phase_ == Phase::kSettling) {
    pause(kSettlePause);   // without a pause, settling agents would occupy a shared processor
    return;
  }
  if (const auto waited = pace_.round_begins(clock_.now())) {
    spdlog::info("exchanges cost {:.0f} % of a round: they now run beside the steps", 100 * *waited);
  }
  ++progress_.round;
  sampler_.set_round(progress_.round);
  const uint64_t stop_after = options_.swarm.stop_after;
  const uint64_t left = stop_after > swarm_steps_ ? stop_after - swarm_steps_ : UINT64_MAX;
  begin_steps(sharing_.alone() ? pace_.steps_alone(left) : options_.swarm.local_steps);
}

void Rounds::save_then(std::function<void()> next) {
  state_ = State::kWorking;
  checkpoints_.save_then(progress_, [this, next = std::move(next)] {
    pace_.boundary_resumed(clock_.now());
    next();
  });
}

// Stops sharing, goes back to the last good state, and halves the learning rate for a while.
void Rounds::became_sick(const std::string& reason) {
  phase_ = Phase::kSick;
  settling_.abandon();
  sharing_.publish_nothing();
  sharing_.drop_decided();
  observer_.on(BecameSick{progress_.steps, reason});
  if (!recovery_.fell_sick(clock_.now())) {
    throw std::runtime_error(reason + " " + std::to_string(kSickInARowMax) +
                             " times in a row, each time after going back to the last checkpoint; lower "
                             "swarm.optimizer.learning_rate or look at the data");
  }
  state_ = State::kWorking;
  checkpoints_.restore_then([this, reason](const std::optional<Progress>& found) {
    if (!found) {
      throw std::runtime_error(reason + ", and there is no checkpoint to go back to; lower "
                               "swarm.optimizer.learning_rate or look at the data");
    }
    progress_ = *found;
    loss_ = 0;
    begin_steps(options_.swarm.local_steps);
  });
}

}  // namespace starling
