#include "agent/run/rounds.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <spdlog/spdlog.h>

#include "kernels/check.h"

namespace starling {
namespace {

constexpr uint32_t kAttemptsPerRoundMax = 3;   // a busy partner is not the end of the round
constexpr uint32_t kNearInARow = 3;             // one close partner could be luck
constexpr uint32_t kSickInARowMax = 3;
constexpr uint64_t kOverlapWindowRounds = 32;
constexpr double kNewcomerRampSteps = 100;      // its momentum starts at zero, and its data may be news to the swarm
constexpr Duration kRateWindow = std::chrono::seconds(2);
constexpr Duration kStepsAlone = std::chrono::milliseconds(50);
constexpr Duration kSettlePause = std::chrono::milliseconds(2);
constexpr Duration kStopPatience = std::chrono::milliseconds(300);   // for exchanges in doubt; Ctrl-C ends in 2 s
constexpr Duration kFinishPatience = std::chrono::seconds(2);

const char* outcome_name(ExchangeOutcome outcome) {
  switch (outcome) {
    case ExchangeOutcome::kDone: return "done";
    case ExchangeOutcome::kLate: return "late";
    case ExchangeOutcome::kFailed: return "failed";
    case ExchangeOutcome::kBusy: return "busy";
  }
  return "?";
}

std::string json_number(double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null"; }

}  // namespace

Rounds::Rounds(const RoundsOptions& options, Trainer& trainer, SharedModel& model, Exchange* exchange,
               Partners& partners, StateKeeper& keeper, Worker& worker, const Clock& clock, MetricsFile& metrics)
    : options_(options), trainer_(trainer), model_(model), exchange_(exchange),
      partners_(partners), keeper_(keeper), worker_(worker), clock_(clock), metrics_(metrics),
      overlap_(options.swarm.exchange.overlap == Overlap::kOn) {}

void Rounds::start(const Progress& from, bool newcomer) {
  STARLING_CHECK(state_ == State::kNotStarted);
  progress_ = from;
  first_step_ = from.steps;
  newcomer_ = newcomer;
  phase_ = Phase::kTraining;
  partners_.set_round(progress_.round);
  mass_ = choose_mass(options_.swarm.weight, 1, trainer_.data_size(), 0);
  if (options_.swarm.exchange.share_gradients) model_.keep_base();
  const TimePoint now = clock_.now();
  window_started_ = boundary_started_ = round_started_ = now;
  next_checkpoint_ = now;   // the first boundary saves: donors can serve from the start
  next_evaluation_ = now;
  state_ = State::kBoundary;
}

void Rounds::stop() {
  stop_asked_ = true;
  if (state_ == State::kNotStarted) state_ = State::kEnded;
}

double Rounds::learning_rate() const {
  const OptimizerConfig& optimizer = options_.swarm.optimizer;
  const double ramp = static_cast<double>(progress_.steps - first_step_ + 1) / kNewcomerRampSteps;
  const double scheduled = schedule_factor(optimizer, swarm_steps_, options_.swarm.stop_after);
  return optimizer.learning_rate * scheduled * rate_scale_ * (newcomer_ ? std::min(1.0, ramp) : 1);
}

TimePoint Rounds::next_deadline() const {
  switch (state_) {
    case State::kBoundary: return clock_.now();
    case State::kPausing: return pause_until_;
    case State::kServing: return exchange_->serving_until().value_or(clock_.now());
    case State::kStepping: return trainer_.idle_at();
    default: return TimePoint::max();   // trainer, worker and pairwise wake the control thread themselves
  }
}

void Rounds::tick() {
  if (exchange_) drain_reports();
  // A state may end within the tick that began it; every lap but the last changes the state.
  for (int laps = 0; laps < 4; ++laps) {
    const State before = state_;
    switch (state_) {
      case State::kStepping:
        if (trainer_.idle()) after_steps();
        break;
      case State::kEvaluating:
        if (trainer_.idle()) after_evaluation();
        break;
      case State::kExchanging:
        if (!exchange_->under_way()) after_exchange();
        break;
      case State::kServing:
        if (!exchange_->serving_until()) state_ = State::kBoundary;
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

void Rounds::run_job(std::function<void()> job, std::function<void()> next) {
  state_ = State::kWorking;
  worker_.submit(std::move(job), std::move(next));
}

void Rounds::pause(Duration duration) {
  pause_until_ = clock_.now() + duration;
  state_ = State::kPausing;
}

void Rounds::after_steps() {
  const StepReport report = trainer_.take_steps();
  progress_.steps += report.steps;
  progress_.samples += report.samples;
  window_steps_ += report.steps;
  window_compute_ += report.compute_time;
  boundary_started_ = clock_.now();
  if (report.steps > 0) loss_ = loss_ == 0 ? report.mean_loss : 0.9 * loss_ + 0.1 * report.mean_loss;
  measure_rate();
  if (!report.finite) {
    became_sick("the loss or a gradient is not finite");
    return;
  }
  if (phase_ == Phase::kSick) {
    phase_ = Phase::kTraining;
  } else if (sick_in_a_row_ > 0 && clock_.now() - sick_since_ > std::chrono::seconds(30)) {
    sick_in_a_row_ = 0;
    rate_scale_ = 1;
  }
  if (round_goes_on()) {
    trainer_.start_steps(options_.swarm.local_steps, learning_rate());
    state_ = State::kStepping;
    return;
  }
  state_ = State::kBoundary;
}

// Rounds in time: each agent takes as many steps as it can.
bool Rounds::round_goes_on() const {
  return phase_ == Phase::kTraining && !stop_asked_ && options_.swarm.round > Duration::zero() &&
         clock_.now() - round_started_ < options_.swarm.round;
}

// The trainer is idle and no job of ours is running: what is due comes first, then the exchange.
void Rounds::boundary() {
  const TimePoint now = clock_.now();
  if (stop_asked_) {
    if (wound_down(kStopPatience)) {
      apply_decided_then([this] { save_then([this] { state_ = State::kEnded; }); });
    }
    return;
  }
  if (options_.evaluate_every > Duration::zero() && now >= next_evaluation_ && phase_ == Phase::kTraining) {
    trainer_.start_evaluation();
    state_ = State::kEvaluating;
    return;
  }
  if (now >= next_checkpoint_) {
    save_then([this] {
      const Duration every = options_.checkpoint_every;
      next_checkpoint_ = every > Duration::zero() ? clock_.now() + every : TimePoint::max();
      state_ = State::kBoundary;
    });
    return;
  }
  const uint64_t stop_after = options_.swarm.stop_after;
  swarm_steps_ = partners_.swarm_steps(progress_.steps);
  if (phase_ == Phase::kTraining && stop_after > 0 && swarm_steps_ >= stop_after) {
    phase_ = Phase::kSettling;
    settle_started_ = now;
    near_in_a_row_ = 0;
    spdlog::info("step {}: settling: exchanges without steps until the models agree", progress_.steps);
  }
  if (phase_ == Phase::kSettling && settled()) {
    finish();
    return;
  }
  if (exchange_ && !overlap_ && exchange_->serving_until()) {
    state_ = State::kServing;   // soon over, and its bytes become those of the next snapshot
  } else if (exchange_ && !(overlap_ && exchange_->under_way())) {
    share();
  } else {
    begin_round();
  }
}

bool Rounds::settled() const {
  if (!exchange_) return true;
  if (clock_.now() - settle_started_ >= options_.swarm.settle_max) return true;
  if (partners_.training_count() > 0) return false;   // somebody's steps still move the mean
  return partners_.candidate_count() == 0 || near_in_a_row_ >= kNearInARow;
}

// Takes part in nothing new, and waits until what is open, in doubt or unacknowledged has ended: our partners have
// applied, or will apply, their halves. False: not yet; the boundary comes again.
bool Rounds::wound_down(Duration patience) {
  if (!exchange_) return true;
  if (!wind_down_until_) {
    exchange_->publish(nullptr);
    wind_down_until_ = clock_.now() + patience;
  }
  if (exchange_->idle() || clock_.now() >= *wind_down_until_) return true;
  pause(kSettlePause);
  return false;
}

void Rounds::apply_decided_then(std::function<void()> next) {
  auto decided = std::make_shared<Decided>();
  if (exchange_) *decided = exchange_->take_decided();
  run_job([this, decided] { model_.apply(*decided); }, std::move(next));
}

void Rounds::finish() {
  if (!final_evaluation_done_) {
    if (!wound_down(kFinishPatience)) return;
    final_evaluation_done_ = true;
    apply_decided_then([this] {
      trainer_.start_evaluation();
      state_ = State::kEvaluating;
    });
    return;
  }
  phase_ = Phase::kFinished;
  save_then([this] { state_ = State::kEnded; });
}

void Rounds::after_evaluation() {
  const std::optional<Evaluation> evaluation = trainer_.take_evaluation();
  if (evaluation && evaluation->samples > 0) {
    accuracy_ = evaluation->accuracy;
    metrics_.write(fmt::format("\"event\":\"evaluate\",\"steps\":{},\"accuracy\":{},\"loss\":{}", progress_.steps,
                               json_number(evaluation->accuracy), json_number(evaluation->loss)));
  }
  boundary_started_ = clock_.now();   // an evaluation is not the exchange's cost
  next_evaluation_ = clock_.now() + options_.evaluate_every;   // from its end: steps come in between
  if (final_evaluation_done_) {
    finish();
  } else {
    state_ = State::kBoundary;
  }
}

// Applies what was decided and takes the new snapshot, in one job; then looks for a partner.
void Rounds::share() {
  auto decided = std::make_shared<Decided>(exchange_->take_decided());
  exchange_->retract();
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->number = ++snapshot_number_;
  snapshot->round = progress_.round;
  snapshot->mass = mass_;
  auto encoded = std::make_shared<SharedModel::Encoded>();
  run_job(
      [this, decided, snapshot, encoded] { *encoded = model_.apply_and_encode(*decided, snapshot.get()); },
      [this, snapshot, encoded] {
        if (!encoded->healthy) {
          became_sick("the params are not finite");
          return;
        }
        if (encoded->params_rms >= 0) params_rms_ = encoded->params_rms;
        exchange_->publish(snapshot);
        attempts_this_round_ = 0;
        exchange_or_go_on();
      });
}

void Rounds::exchange_or_go_on() {
  const bool begun = attempts_this_round_ < kAttemptsPerRoundMax && exchange_->begin();
  ++attempts_this_round_;
  if (begun && (!overlap_ || phase_ == Phase::kSettling)) {
    state_ = State::kExchanging;
  } else if (phase_ == Phase::kSettling) {
    pause(kSettlePause);
  } else {
    begin_round();
  }
}

void Rounds::after_exchange() {
  auto decided = std::make_shared<Decided>(exchange_->take_decided());
  const bool again = decided->deltas.empty() && exchange_->retries() && attempts_this_round_ < kAttemptsPerRoundMax;
  const auto next = [this, again] {
    if (again && !stop_asked_) {
      exchange_or_go_on();   // busy or failed: somebody else may be free
    } else if (stop_asked_) {
      state_ = State::kBoundary;
    } else {
      begin_round();   // while settling a pause: no agent has the processor to itself
    }
  };
  if (decided->deltas.empty() && decided->lessons.empty()) {
    next();
    return;
  }
  run_job([this, decided] { model_.apply(*decided); }, next);
}

void Rounds::begin_round() {
  if (phase_ == Phase::kSettling) {
    pause(kSettlePause);
    return;
  }
  window_boundary_ += clock_.now() - boundary_started_;
  ++window_rounds_;
  choose_overlap();
  ++progress_.round;
  partners_.set_round(progress_.round);
  round_started_ = clock_.now();
  if (options_.swarm.exchange.share_gradients) model_.keep_base();
  trainer_.start_steps(steps_of_round(), learning_rate());
  state_ = State::kStepping;
}

// Alone there is nobody to meet after each step: some at once spare the threads their hand-over.
uint32_t Rounds::steps_of_round() const {
  if (exchange_) return options_.swarm.local_steps;
  const double some = std::clamp(seconds(kStepsAlone) * steps_per_s_, 1.0, 64.0);
  const uint64_t left = options_.swarm.stop_after > swarm_steps_ ? options_.swarm.stop_after - swarm_steps_ : 64;
  return static_cast<uint32_t>(std::min<uint64_t>(static_cast<uint64_t>(some), left));
}

void Rounds::save_then(std::function<void()> next) {
  auto error = std::make_shared<std::string>();
  const TimePoint began = clock_.now();
  run_job([this, error, at = progress_] { *error = keeper_.save(at, trainer_, model_.encoder().save()); },
          [this, error, began, next] {
            const double ms = seconds(clock_.now() - began) * 1e3;
            if (error->empty()) {
              options_.on_saved();
            } else {
              spdlog::error("checkpoint failed: {}; the earlier ones are untouched, training goes on", *error);
            }
            std::string escaped;
            for (char c : *error) {
              if (c == '"' || c == '\\') escaped += '\\';
              if (static_cast<unsigned char>(c) >= 0x20) escaped += c;
            }
            metrics_.write(fmt::format("\"event\":\"checkpoint\",\"steps\":{},\"ms\":{:.1f}{}", progress_.steps, ms,
                                       error->empty() ? "" : ",\"error\":\"" + escaped + "\""));
            boundary_started_ = clock_.now();
            next();
          });
}

// Stops sharing, goes back to the last good state, and halves the learning rate for a while.
void Rounds::became_sick(const std::string& reason) {
  phase_ = Phase::kSick;
  sick_since_ = clock_.now();
  rate_scale_ *= 0.5;
  if (exchange_) {
    exchange_->publish(nullptr);
    exchange_->take_decided();   // what was decided belongs to the params we throw away
  }
  spdlog::error("step {}: {}; sharing stopped, going back to the last good state", progress_.steps, reason);
  metrics_.write(fmt::format("\"event\":\"sick\",\"steps\":{},\"reason\":\"{}\"", progress_.steps, reason));
  if (++sick_in_a_row_ > kSickInARowMax) {
    throw std::runtime_error(reason + " " + std::to_string(kSickInARowMax) +
                             " times in a row, each time after going back to the last checkpoint; lower "
                             "swarm.optimizer.learning_rate or look at the data");
  }
  // The worker must not write progress_, which the control thread reads at every tick.
  struct Found {
    bool any = false;
    Progress progress;
    std::vector<std::byte> codec_memory;   // not used: what the codec knows of the others is newer than the checkpoint
  };
  auto found = std::make_shared<Found>();
  run_job([this, found] { found->any = keeper_.restore(&found->progress, trainer_, &found->codec_memory); },
          [this, found, reason] {
            if (!found->any) {
              throw std::runtime_error(reason + ", and there is no checkpoint to go back to; lower "
                                       "swarm.optimizer.learning_rate or look at the data");
            }
            progress_ = found->progress;
            loss_ = 0;
            if (options_.swarm.exchange.share_gradients) model_.keep_base();
            trainer_.start_steps(options_.swarm.local_steps, learning_rate());
            state_ = State::kStepping;
          });
}

void Rounds::drain_reports() {
  for (const ExchangeReport& report : exchange_->take_reports()) {
    switch (report.outcome) {
      case ExchangeOutcome::kDone: ++tally_.done; break;
      case ExchangeOutcome::kLate: ++tally_.late; break;
      case ExchangeOutcome::kFailed: ++tally_.failed; break;
      case ExchangeOutcome::kBusy:
        // Steps keep the attempts apart; settling has none, and would ask one that winds down again and again.
        if (report.initiated && phase_ == Phase::kSettling) partners_.busy(report.peer, report.free_in);
        break;
    }
    // Silence costs a deadline; a partner that answered and could not be mixed with this time costs nothing.
    if (report.outcome == ExchangeOutcome::kFailed && report.payload_bytes_received == 0 &&
        report.duration >= options_.swarm.exchange.deadline_min) {
      partners_.failed(report.peer);
    } else if (report.outcome == ExchangeOutcome::kDone) {
      partners_.succeeded(report.peer);
    }
    if (report.distance >= 0) {
      distance_ = params_rms_ > 0 ? report.distance / params_rms_ : report.distance;
      if (phase_ == Phase::kSettling && report.initiated) {
        near_in_a_row_ = distance_ <= options_.swarm.final_distance ? near_in_a_row_ + 1 : 0;
      }
    }
    metrics_.write(fmt::format(
        "\"event\":\"exchange\",\"peer\":\"{}\",\"initiated\":{},\"outcome\":\"{}\",\"ms\":{:.2f},\"blocks\":{},"
        "\"blocks_total\":{},\"bytes_out\":{},\"bytes_in\":{},\"distance\":{},\"scale\":{},\"steps\":{}",
        report.peer.hex(), report.initiated, outcome_name(report.outcome), seconds(report.duration) * 1e3,
        report.blocks_mixed, report.blocks_total, report.payload_bytes_sent, report.payload_bytes_received,
        report.distance >= 0 ? json_number(distance_) : "null", json_number(report.scale), progress_.steps));
  }
}

void Rounds::measure_rate() {
  const Duration elapsed = clock_.now() - window_started_;
  if (elapsed < kRateWindow) return;
  const double rate = static_cast<double>(window_steps_) / seconds(elapsed);
  steps_per_s_ = steps_per_s_ == 0 ? rate : 0.5 * (steps_per_s_ + rate);
  window_started_ = clock_.now();
  window_steps_ = 0;
  const double relative_rate = steps_per_s_ / partners_.median_rate(steps_per_s_);
  mass_ = choose_mass(options_.swarm.weight, relative_rate, trainer_.data_size(), mass_);
  mass_ = std::min(mass_, kMassRatioMax * partners_.median_mass(mass_));
}

// auto: overlap once the boundaries take more than a tenth of a round.
void Rounds::choose_overlap() {
  if (options_.swarm.exchange.overlap != Overlap::kAuto || window_rounds_ < kOverlapWindowRounds) return;
  const double waiting = seconds(window_boundary_), computing = seconds(window_compute_);
  if (!overlap_ && waiting > 0.1 * (waiting + computing)) {
    overlap_ = true;
    spdlog::info("exchanges cost {:.0f} % of a round: they now run beside the steps",
                 100 * waiting / (waiting + computing));
  }
  window_rounds_ = 0;
  window_boundary_ = window_compute_ = Duration::zero();
}

}  // namespace starling
