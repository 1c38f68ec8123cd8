// The round machine: local steps, boundary, exchange, and again; then the settling phase; checkpoints and evaluations
// in between. A state machine on the control thread: arithmetic goes to the worker, steps to the trainer.
//
//   without overlap:  steps -> [apply what was decided, encode] -> exchange -> [apply] -> steps
//   with overlap:     steps -> [apply what was decided, encode] -> steps, the exchange beside them
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/config/config.h"
#include "agent/observe/metrics.h"
#include "agent/run/partners.h"
#include "agent/run/shared_model.h"
#include "agent/state/state_keeper.h"
#include "agent/train/schedule.h"
#include "agent/train/trainer.h"
#include "gossip/clock.h"
#include "gossip/exchange/exchange.h"
#include "gossip/worker.h"

namespace starling {

struct RoundsOptions {
  SwarmConfig swarm;
  Duration checkpoint_every{};
  Duration evaluate_every{};
  std::function<void()> on_saved;    // control thread, after a save that worked: StateKeeper::model() has changed
};

class Rounds {
 public:
  // `exchange` is null when the agent trains alone.
  Rounds(const RoundsOptions& options, Trainer& trainer, SharedModel& model, Exchange* exchange, Partners& partners,
         StateKeeper& keeper, Worker& worker, const Clock& clock, MetricsFile& metrics);

  // A newcomer, whose model is somebody else's, begins with a short ramp of the learning rate.
  void start(const Progress& from, bool newcomer);
  void tick();
  TimePoint next_deadline() const;
  void stop();                       // after the steps at hand: checkpoint, then ended()
  bool ended() const { return state_ == State::kEnded; }   // stopped, or finished at stop_after

  Phase phase() const { return phase_; }
  const Progress& progress() const { return progress_; }
  double loss() const { return loss_; }
  double accuracy() const { return accuracy_; }
  double relative_distance() const { return distance_; }   // negative: not known yet
  double steps_per_s() const { return steps_per_s_; }
  double mass() const { return mass_; }
  double learning_rate() const;

  struct Tally {
    uint64_t done = 0, late = 0, failed = 0;
  };
  const Tally& tally() const { return tally_; }
  bool overlapping() const { return overlap_; }

 private:
  enum class State {
    kNotStarted, kStepping, kEvaluating, kWorking, kExchanging, kServing, kPausing, kBoundary, kEnded
  };

  void boundary();
  void share();
  void after_steps();
  void after_evaluation();
  void after_exchange();
  void begin_round();
  uint32_t steps_of_round() const;
  void exchange_or_go_on();
  bool settled() const;
  void finish();
  bool wound_down(Duration patience);
  void apply_decided_then(std::function<void()> next);
  void save_then(std::function<void()> next);
  void run_job(std::function<void()> job, std::function<void()> next);
  void became_sick(const std::string& reason);
  void drain_reports();
  bool round_goes_on() const;
  void measure_rate();
  void choose_overlap();
  void pause(Duration duration);

  RoundsOptions options_;
  Trainer& trainer_;
  SharedModel& model_;
  Exchange* exchange_;
  Partners& partners_;
  StateKeeper& keeper_;
  Worker& worker_;
  const Clock& clock_;
  MetricsFile& metrics_;

  State state_ = State::kNotStarted;
  Phase phase_ = Phase::kJoining;
  Progress progress_;
  Tally tally_;
  bool stop_asked_ = false;
  bool final_evaluation_done_ = false;
  uint32_t attempts_this_round_ = 0;
  uint32_t near_in_a_row_ = 0;       // own exchanges below final_distance while settling
  uint32_t sick_in_a_row_ = 0;
  uint64_t first_step_ = 0, swarm_steps_ = 0;
  bool newcomer_ = false;
  double rate_scale_ = 1;            // of the learning rate, halved by sickness
  double loss_ = 0, accuracy_ = -1, distance_ = -1, steps_per_s_ = 0, mass_ = 1;
  double params_rms_ = 0;
  uint64_t snapshot_number_ = 0;
  bool overlap_ = false;
  std::optional<TimePoint> wind_down_until_;
  TimePoint pause_until_, settle_started_, next_checkpoint_, next_evaluation_, sick_since_;
  TimePoint boundary_started_, window_started_, round_started_;
  uint64_t window_steps_ = 0;
  Duration window_boundary_{}, window_compute_{};
  uint64_t window_rounds_ = 0;
};

}  // namespace starling
