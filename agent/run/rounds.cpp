#include "agent/run/rounds.h"

#include <algorithm>

#include <spdlog/spdlog.h>

#include "kernels/check.h"

namespace starling {

Rounds::Rounds(const RoundsOptions& options, Trainer& trainer, ModelMemory& model, Sharing& sharing,
               SwarmSampler& sampler, const Membership& membership, SwarmClock& swarm_clock, StateKeeper& keeper,
               Worker& worker, const Clock& clock, Observer& observer)
    : local_steps_(options.swarm.local_steps), sampler_(sampler), clock_(clock),
      steps_(options.swarm, trainer, model, swarm_clock, clock), sharing_(sharing),
      jobs_({options.checkpoint_every, options.evaluate_every},
            {keeper, trainer, model, worker, clock, observer, options.on_saved}, trainer, steps_.pace(), clock,
            observer),
      ending_(options.swarm, sharing_, jobs_, membership, swarm_clock, clock),
      meetings_(options.swarm.exchange.deadline_min, sampler, ending_.settling(), observer),
      sickness_(steps_.recovery(), sharing_, jobs_.checkpoints(), clock, observer) {}

void Rounds::start(const Progress& from, bool newcomer) {
  STARLING_CHECK(state_ == State::kNotStarted);
  steps_.start(from, newcomer);
  phase_ = Phase::kTraining;
  sampler_.set_round(from.round);
  jobs_.start();
  state_ = State::kBoundary;
}

void Rounds::stop() {
  stop_asked_ = true;
  sharing_.stop_retrying();
  if (state_ == State::kNotStarted) state_ = State::kEnded;
}

TimePoint Rounds::next_deadline() const {
  switch (state_) {
    case State::kBoundary: return clock_.now();
    case State::kPausing: return pause_until_;
    case State::kServing: return sharing_.serving_until().value_or(clock_.now());
    case State::kStepping:
      return sends_early() ? std::min(steps_.end(), std::max(clock_.now(), sharing_.next_final())) : steps_.end();
    default: return TimePoint::max();   // trainer, worker and exchange wake the control thread themselves
  }
}

void Rounds::tick() {
  meetings_.take(sharing_.take_reports(), progress().steps, sharing_.params_rms());
  // A state may end within the tick that began it. Every lap but the last changes the state.
  for (int laps = 0; laps < 4; ++laps) {
    const State before = state_;
    switch (state_) {
      case State::kStepping:
        if (steps_.ended()) {
          after_steps();
        } else if (sends_early()) {
          sharing_.send_final(progress().round, mass());
        }
        break;
      case State::kWorking:
        jobs_.tick();
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
      case State::kEnded: break;
    }
    if (state_ == before) return;
  }
}

void Rounds::pause() {
  pause_until_ = clock_.now() + kPause;
  state_ = State::kPausing;
}

// The first steps of a round.
void Rounds::begin_steps(uint32_t count) {
  state_ = State::kWorking;
  sharing_.begin_round_then([this, count] { start_steps(count); });
}

void Rounds::start_steps(uint32_t count) {
  steps_await_exchange_ = true;
  steps_.begin(count, sharing_.begin_steps(), sharing_.landing());
  state_ = State::kStepping;
}

void Rounds::after_steps() {
  if (!steps_.take()) {
    became_sick("the loss or a gradient is not finite");
    return;
  }
  if (phase_ == Phase::kSick) phase_ = Phase::kTraining;
  if (phase_ == Phase::kTraining && !stop_asked_ && steps_.pace().round_goes_on(clock_.now())) {
    start_steps(local_steps_);
  } else {
    state_ = State::kBoundary;
  }
}

// The trainer is idle and no job of ours is running: the exchange comes first, then what is due.
void Rounds::boundary() {
  if (stop_asked_) return end(Ending::Reason::kStopped);
  steps_.look_at_swarm();
  if (phase_ == Phase::kTraining && steps_.all_taken()) {
    phase_ = Phase::kSettling;
    ending_.begin_settling();
    sharing_.settle();
    sampler_.settle(true);
    spdlog::info("step {}: settling: exchanges without steps until the models agree", progress().steps);
  }
  const bool overlap = steps_.pace().overlap();
  if (phase_ == Phase::kSettling && ending_.settling_ended()) {
    end(Ending::Reason::kFinished);
  } else if (!overlap && sharing_.serving_until()) {
    state_ = State::kServing;   // it ends soon, and the next snapshot reuses its memory
  } else if (!sharing_.alone() && !(overlap && sharing_.under_way()) && !nothing_to_share()) {
    share();
  } else {
    begin_round();
  }
}

// Every replica is the genesis still. Entries of no updates, made before the members see each other, would begin
// several logs, and to settle which of them holds would cost rounds of real updates.
bool Rounds::nothing_to_share() const {
  return sharing_.holds_replica() && steps_.swarm_begins() && !sharing_.others_have_begun();
}

// As at a boundary: while a run ends, or has nothing to share yet, nothing is sent before it either.
bool Rounds::sends_early() const { return phase_ == Phase::kTraining && !stop_asked_ && !nothing_to_share(); }

void Rounds::share() {
  state_ = State::kWorking;
  const bool wait = phase_ == Phase::kSettling || !steps_.pace().overlap();
  sharing_.expect_steps(phase_ == Phase::kSettling ? Duration::zero() : steps_.pace().expected(local_steps_));
  if (phase_ == Phase::kSettling) sharing_.leave_out_beyond(ending_.far());
  sharing_.share(progress().round, mass(), wait, [this](bool healthy) { shared(healthy); });
}

void Rounds::shared(bool healthy) {
  steps_.pace().times().coded(sharing_.take_select_time(), sharing_.take_encode_time());
  if (!healthy) return became_sick("the params are not finite");
  begin_round();
}

// What is evaluated and saved, and handed out from there, is the model after the exchange.
void Rounds::begin_round() {
  steps_await_exchange_ = false;
  if (stop_asked_) {
    state_ = State::kBoundary;
    return;
  }
  if (jobs_.begin_due(phase_ == Phase::kTraining, progress(), [this] { begin_round(); })) {
    state_ = State::kWorking;
    return;
  }
  const bool early = nothing_to_share() ? sharing_.gathering() : sharing_.catching_up();
  if (early) steps_.pace().start(clock_.now());   // that wait is no cost of the exchange
  if (phase_ == Phase::kSettling || early) return pause();
  if (const auto waited = steps_.pace().round_begins(clock_.now(), sharing_.late())) {
    spdlog::info("exchanges cost {:.0f} % of a round: they now run beside the steps", 100 * *waited);
  }
  steps_.next_round();
  sampler_.set_round(progress().round);
  if (sharing_.alone()) return begin_steps(steps_.pace().steps_alone(steps_.left()));
  const uint32_t left = steps_.pace().steps_left(local_steps_, sharing_.late());
  steps_.leave_out(local_steps_ - left);
  begin_steps(left);
}

void Rounds::end(Ending::Reason reason) {
  steps_await_exchange_ = false;   // what is decided is applied, and that is the model
  if (!ending_.begin(reason, progress(), [this] { state_ = State::kEnded; })) return pause();
  state_ = State::kWorking;
}

// Stops sharing, goes back to the last good state, and halves the learning rate for a while.
void Rounds::became_sick(const std::string& reason) {
  phase_ = Phase::kSick;
  ending_.settling().abandon();
  sampler_.settle(false);
  state_ = State::kWorking;
  sickness_.go_back_then(reason, progress().steps, [this](const Progress& to) {
    steps_.go_back(sharing_.holds_replica() ? progress() : to);
    begin_steps(local_steps_);
  });
}

}  // namespace starling
