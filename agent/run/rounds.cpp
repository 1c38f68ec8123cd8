#include "agent/run/rounds.h"

#include <algorithm>

#include <spdlog/spdlog.h>

#include "agent/report/format.h"
#include "kernels/check.h"

namespace starling {
namespace {

// An agent may end its steps after most agree. Farther away than so many times the final distance it would draw off
// some of them and be refused by the rest, so it waits for their model, so long.
constexpr double kLateWithin = 10;
constexpr Duration kLatePatience = std::chrono::seconds(4);

}  // namespace

Rounds::Rounds(const RoundsOptions& options, Trainer& trainer, ModelMemory& model, Sharing& sharing,
               SwarmSampler& sampler, const Membership& membership, SwarmClock& swarm_clock, StateKeeper& keeper,
               Worker& worker, Worker& writer, const Clock& clock, Observer& observer)
    : local_steps_(options.swarm.local_steps),
      sampler_(sampler),
      place_(options.swarm.exchange, sampler, clock),
      clock_(clock),
      gathering_(options.swarm, membership, clock),
      steps_(options.swarm, trainer, model, swarm_clock, clock),
      sharing_(sharing),
      jobs_({options.checkpoint_every, options.evaluate_every},
            {keeper, trainer, model, membership, worker, writer, clock, observer, options.on_saved}, trainer,
            steps_.pace(), clock, observer),
      ending_(options.swarm, sharing_, jobs_, membership, swarm_clock, clock, options.find_path),
      meetings_(options.swarm.exchange.deadline_min, sampler, ending_.settling(), observer),
      sickness_(steps_.recovery(), sharing_, jobs_.checkpoints(), clock, observer) {
  if (options.gather_at_most) gathering_.wait_at_most(*options.gather_at_most);
  steps_.has_ended_at(options.ended_at);
}

void Rounds::start(const Progress& from, bool newcomer) {
  STARLING_CHECK(state_ == State::kNotStarted);
  steps_.start(from, newcomer);
  if (from.steps > 0) gathering_.skip();
  phase_ = Phase::kTraining;
  sampler_.set_round(from.round);
  jobs_.start();
  state_ = State::kBoundary;
}

void Rounds::stop() {
  stop_asked_ = true;
  steps_.stop();
  sharing_.stop_retrying();
  if (state_ == State::kNotStarted) state_ = State::kEnded;
}

bool Rounds::prolong(uint64_t stop_after) {
  if (state_ == State::kEnded || !steps_.may_follow()) return false;
  if (phase_ == Phase::kSettling && !ending_.resume_training()) return false;
  steps_.set_stop(stop_after);
  return true;
}

// At a boundary after prolong(). Others may settle still, until they hear of it: a member that trains keeps them.
void Rounds::resume_training() {
  phase_ = Phase::kTraining;
  late_.reset();
  sharing_.settle(false);
  sampler_.settle(false);
  steps_.pace().start(clock_.now());  // to settle is no cost of an exchange
  spdlog::info("step {}: takes steps again, until {}", progress().steps, steps_.stop_after());
}

TimePoint Rounds::next_deadline() const {
  switch (state_) {
    case State::kBoundary: return clock_.now();
    case State::kWaiting: return wait_until_;
    case State::kServing: return sharing_.serving_until().value_or(clock_.now());
    case State::kStepping: {
      const TimePoint next = std::min(steps_.end(), steps_.paused() ? wait_until_ : steps_.pauses_at());
      return sends_early() ? std::min(next, std::max(clock_.now(), sharing_.next_final())) : next;
    }
    default: return TimePoint::max();  // trainer, worker and exchange wake the control thread themselves
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
        } else {
          if (sends_early()) sharing_.send_final(progress().round, mass());
          look_at_loop();
        }
        break;
      case State::kWorking:
        jobs_.tick();
        sharing_.tick();
        break;
      case State::kServing:
        if (!sharing_.serving_until()) state_ = State::kBoundary;
        break;
      case State::kWaiting:
        if (clock_.now() >= wait_until_) state_ = State::kBoundary;
        break;
      case State::kBoundary: boundary(); break;
      case State::kNotStarted:
      case State::kEnded: break;
    }
    if (state_ == before) return;
  }
}

void Rounds::wait(Duration time) {
  wait_until_ = clock_.now() + time;
  state_ = State::kWaiting;
}

// A loop of its own may pause. What was published before is no model that others should mix with for long.
void Rounds::look_at_loop() {
  if (steps_.begins_pause()) {
    sharing_.publish_nothing();
    jobs_.checkpoints().give_room_back();
    spdlog::info("step {}: the loop pauses; the others go on without it until its next step", progress().steps);
  }
  if (!steps_.paused() || clock_.now() < wait_until_) return;
  wait_until_ = clock_.now() + kLookWhilePaused;
  look_at_end();
}

// The others may end the run meanwhile, and leave. They wait a while for this agent to fetch their model.
void Rounds::look_at_end() {
  steps_.look_at_end();
  if (!steps_.run_ended()) {
    late_.reset();
  } else if (sharing_.holds_replica()) {
    holds_final_ = ending_.others_finished() && sharing_.holds_end_of_log();
    return;
  } else if (!late_) {
    late_ = ending_.model_of_others();
  }
  if (!late_) holds_final_ = false;
}

// Others are missing. The genesis is saved once meanwhile, so that this agent can give it to them.
bool Rounds::gathers() {
  if (gathering_.over()) return false;
  gathering_.look();
  if (gathering_.over()) {
    steps_.pace().start(clock_.now());  // the wait is no cost of an exchange
    return false;
  }
  const bool saved = jobs_.checkpoints().saved();
  if (!saved && jobs_.begin_due(false, progress(), [this] { state_ = State::kBoundary; })) {
    state_ = State::kWorking;
  } else {
    wait(kGatherPause);
  }
  return true;
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
  const bool paused = steps_.paused();
  const bool finite = steps_.take();
  if (paused) {
    spdlog::info("step {}: the loop goes on after its pause{}", progress().steps,
                 steps_.run_ended() ? ", and the run has ended meanwhile" : "");
    if (!steps_.run_ended()) {
      late_.reset();
      holds_final_ = false;
    }
  }
  if (!finite) {
    became_sick("the loss or a gradient is not finite");
    return;
  }
  if (phase_ == Phase::kSick) phase_ = Phase::kTraining;
  if (phase_ == Phase::kTraining && !stop_asked_ && !paused && steps_.pace().round_goes_on(clock_.now())) {
    start_steps(local_steps_);
  } else {
    state_ = State::kBoundary;
  }
}

// The trainer is idle and no job of ours is running: the exchange comes first, then what is due.
void Rounds::boundary() {
  if (stop_asked_) return end(Ending::Reason::kStopped);
  if (gathers()) return;
  steps_.look_at_swarm();
  if (phase_ == Phase::kSettling && !ending_.settling().active()) resume_training();
  if (phase_ == Phase::kTraining && steps_.all_taken()) begin_settling();
  if (phase_ == Phase::kSettling && sharing_.holds_replica() && holds_final_) return take_end_of_log();
  if (waits_to_adopt()) return wait();
  if (adopts()) return replace_params();
  const bool overlap = steps_.pace().overlap();
  if (phase_ == Phase::kSettling && ending_.settling_ended()) {
    end(Ending::Reason::kFinished);
  } else if (!overlap && sharing_.serving_until()) {
    state_ = State::kServing;  // it ends soon, and the next snapshot reuses its memory
  } else if (!sharing_.alone() && !(overlap && sharing_.under_way()) && !nothing_to_share()) {
    share();
  } else {
    begin_round(sharing_.holds_replica() && sharing_.under_way());
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
  place_.check();
  state_ = State::kWorking;
  const bool settles = phase_ == Phase::kSettling, wait = settles || !steps_.pace().overlap();
  sharing_.expect_steps(settles ? Duration::zero() : steps_.pace().expected(local_steps_),
                        jobs_.expected(phase_ == Phase::kTraining));
  if (settles) sharing_.leave_out_beyond(ending_.far());
  sharing_.share(progress().round, mass(), wait, [this](bool healthy) { shared(healthy); });
}

void Rounds::shared(bool healthy) {
  steps_.pace().times().coded(sharing_.take_select_time(), sharing_.take_encode_time());
  if (!healthy) return became_sick("the params are not finite");
  begin_round();
}

// What is evaluated and saved, and handed out from there, is the model after the exchange. `jobs_wait`: the params are
// the replica and steps that were not shared yet. No log makes them, so a checkpoint of them could not be restored.
void Rounds::begin_round(bool jobs_wait) {
  steps_await_exchange_ = false;
  if (stop_asked_) {
    state_ = State::kBoundary;
    return;
  }
  if (!jobs_wait && jobs_.begin_due(phase_ == Phase::kTraining, progress(), [this] { begin_round(); })) {
    state_ = State::kWorking;
    return;
  }
  const bool early = nothing_to_share() ? sharing_.gathering() : sharing_.catching_up();
  if (early) steps_.pace().start(clock_.now());  // that wait is no cost of the exchange
  if (phase_ == Phase::kSettling || early) return wait();
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
  steps_await_exchange_ = false;  // what is decided is applied, and that is the model
  if (!ending_.begin(reason, progress(), [this] { state_ = State::kEnded; })) return wait();
  state_ = State::kWorking;
}

void Rounds::begin_settling() {
  phase_ = Phase::kSettling;
  const bool left_behind = steps_.run_ended() && !holds_final_;
  ending_.begin_settling(left_behind);
  if (!late_) {
    late_ = ending_.model_of_most();
    const double near = kLateWithin * ending_.settling().final_distance() * sharing_.params_rms();
    if (late_ && projected_distance(late_->theirs, late_->own) <= near) late_.reset();
  }
  if (left_behind) {
    spdlog::warn(
        "the others ended the run while this agent's loop paused, and their model is not here: this agent ends with "
        "its own unless some of them are still there; take the model of another member");
  }
  if (late_) sharing_.publish_nothing();
  late_until_ = clock_.now() + kLatePatience;
  sharing_.settle(true);
  sampler_.settle(true);
  spdlog::info("step {}: settling: exchanges without steps until the models agree", progress().steps);
}

std::optional<OthersModel> Rounds::model_of_most() const {
  if (stop_asked_ || (phase_ != Phase::kSettling && !late_)) return std::nullopt;
  return late_ ? late_ : ending_.model_of_most();
}

void Rounds::adopt(std::shared_ptr<const std::vector<float>> params) {
  adopted_ = std::move(params);
  late_until_ = clock_.now() + kLatePatience;
  sharing_.publish_nothing();
}

// For the model, and then for exchanges that are still open: what they decide moves the own one.
bool Rounds::waits_to_adopt() const {
  return (adopted_ ? !sharing_.idle() : late_.has_value()) && clock_.now() < late_until_;
}

// Exchanges may have brought it near since the others' model was asked for.
bool Rounds::adopts() {
  if (adopted_ && !model_of_most()) adopted_.reset();
  late_.reset();
  return adopted_ != nullptr;
}

// What was exchanged moved the own model, and goes with it.
void Rounds::replace_params() {
  sharing_.drop_decided();
  sharing_.settle(true);
  ending_.params_replaced();
  if (std::exchange(holds_final_, false)) ending_.took_final_model();
  state_ = State::kWorking;
  jobs_.checkpoints().replace_then(std::exchange(adopted_, nullptr), [this] { state_ = State::kBoundary; });
}

// Of updates. The own steps since the pause began go, as no entry will count them.
void Rounds::take_end_of_log() {
  holds_final_ = false;
  ending_.took_final_model();
  sharing_.publish_nothing();
  sharing_.drop_decided();
  state_ = State::kWorking;
  sharing_.apply_decided_then([this] { state_ = State::kBoundary; });
}

// Stops sharing, goes back to the last good state, and halves the learning rate for a while.
void Rounds::became_sick(const std::string& reason) {
  phase_ = Phase::kSick;
  ending_.settling().abandon();
  sampler_.settle(false);
  state_ = State::kWorking;
  sickness_.go_back_then(reason, progress().steps, [this](const Progress& to) {
    if (!sharing_.holds_replica()) {
      spdlog::warn(
          "this agent goes on from step {}, without the {} after it; a shorter agent.checkpoint.every loses fewer",
          to.steps, print_count(progress().steps - to.steps, "step"));
    }
    steps_.go_back(sharing_.holds_replica() ? progress() : to);
    begin_steps(local_steps_);
  });
}

}  // namespace starling
