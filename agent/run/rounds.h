// The round machine: local steps, boundary, exchange, and again; then the settling phase; checkpoints and evaluations
// in between. A state machine on the control thread: arithmetic goes to the worker, steps to the trainer. Each of its
// parts has a file of its own.
//
//   without overlap:  steps -> [apply what was decided, encode] -> exchange -> [apply] -> evaluate, save -> steps
//   with overlap:     steps -> [apply what was decided, encode] -> evaluate, save -> steps, the exchange beside them
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/config/config.h"
#include "agent/run/boundary_jobs.h"
#include "agent/run/ending.h"
#include "agent/run/gathering.h"
#include "agent/run/group_place.h"
#include "agent/run/meetings.h"
#include "agent/run/sickness.h"
#include "agent/run/stepping.h"
#include "agent/share/sharing.h"

namespace starling {

struct RoundsOptions {
  SwarmConfig swarm;
  Duration checkpoint_every{}, evaluate_every{};
  std::function<void()> on_saved;  // control thread, after a save that worked: StateKeeper::model() has changed
  std::optional<Duration> gather_at_most{};  // as Gathering::wait_at_most()
  uint64_t ended_at = 0;                     // as Stepping::has_ended_at()
  FindPath find_path{};
};

class Rounds {
 public:
  // All references must outlive the object.
  Rounds(const RoundsOptions& options, Trainer& trainer, ModelMemory& model, Sharing& sharing, SwarmSampler& sampler,
         const Membership& membership, SwarmClock& swarm_clock, StateKeeper& keeper, Worker& worker, Worker& writer,
         const Clock& clock, Observer& observer);

  // A newcomer, with a model from a donor, begins with a short ramp of the learning rate.
  void start(const Progress& from, bool newcomer);
  void tick();
  TimePoint next_deadline() const;
  void on_member(const MemberEvent& event) { ending_.on_member(event); }
  void stop();  // after the step in hand and the exchange under way: checkpoint, then ended()
  void stop_waiting() { sharing_.stop_waiting(); }              // REQUIRES: stop() was called. For that exchange
  bool ended() const { return state_ == State::kEnded; }        // stopped, or finished at stop_after
  bool waits_for_others() const { return !gathering_.over(); }  // before the swarm's first step

  // The run has become longer: an agent that settles takes steps again. False: it has agreed with the others, and ends.
  [[nodiscard]] bool prolong(uint64_t stop_after);

  // While settling: the model that most members agree on without this agent, and that it is to take instead of its own.
  std::optional<OthersModel> model_of_most() const;
  bool waits_for_model() const { return late_ && !adopted_; }  // it ended its steps too late, too far away
  void adopt(std::shared_ptr<const std::vector<float>> params);
  // While the loop pauses: that model is here, and adopt() follows when the loop comes back.
  void has_final_model() { holds_final_ = steps_.paused(); }
  Pause pause() const { return !steps_.paused() ? Pause::kNone : holds_final_ ? Pause::kHoldsFinal : Pause::kPaused; }

  void save_soon() { jobs_.save_soon(); }  // a newcomer needs a newer model than the last one saved

  Phase phase() const { return ending_.finished() ? Phase::kFinished : phase_; }
  const Progress& progress() const { return steps_.progress(); }
  bool in_first_steps() const { return state_ == State::kStepping && steps_.taken() == 0; }
  // The params hold steps that no exchange has followed yet: the agent's model, which it evaluates and hands out, is
  // the one that they began from.
  bool steps_await_exchange() const { return steps_await_exchange_; }
  const std::string& save_error() const { return jobs_.checkpoints().error(); }  // of the last one; empty: it was saved
  double accuracy() const { return jobs_.accuracy(); }
  double test_loss() const { return jobs_.test_loss(); }
  double relative_distance() const { return meetings_.relative_distance(); }  // negative: not known yet
  std::optional<bool> settled() const { return ending_.settled(); }           // nullopt: not known yet
  std::optional<Agreement> agreement() const { return ending_.agreement(); }
  const std::optional<Projection>& projection() const { return sharing_.projection(); }
  double mass() const { return steps_.pace().mass(); }
  const Stepping& steps() const { return steps_; }
  const ExchangeCounts& tally() const { return meetings_.tally(); }
  const std::string& left_out_last() const { return meetings_.left_out_last(); }
  const std::optional<LateExchange>& last_late() const { return meetings_.last_late(); }

 private:
  // kWorking: a job is under way, and calls back when it has ended.
  enum class State { kNotStarted, kStepping, kWorking, kServing, kWaiting, kBoundary, kEnded };
  void after_steps();
  void boundary();
  void share();
  void shared(bool healthy);
  void begin_round(bool jobs_wait = false);
  bool nothing_to_share() const;
  bool sends_early() const;
  void begin_steps(uint32_t count);
  void start_steps(uint32_t count);
  void end(Ending::Reason reason);
  void became_sick(const std::string& reason);
  void begin_settling();
  bool adopts();
  bool waits_to_adopt() const;
  void replace_params();
  void take_end_of_log();
  void resume_training();
  void wait(Duration time = kPause);
  void look_at_loop();
  void look_at_end();
  bool gathers();

  static constexpr Duration kPause = std::chrono::milliseconds(2);  // settling agents leave others the processor
  static constexpr Duration kGatherPause = std::chrono::milliseconds(100);
  static constexpr Duration kLookWhilePaused = std::chrono::milliseconds(100);
  const uint32_t local_steps_;
  SwarmSampler& sampler_;
  GroupPlace place_;
  const Clock& clock_;
  Gathering gathering_;
  Stepping steps_;
  Sharing& sharing_;
  BoundaryJobs jobs_;
  Ending ending_;
  Meetings meetings_;
  Sickness sickness_;

  State state_ = State::kNotStarted;
  Phase phase_ = Phase::kJoining;
  std::optional<OthersModel> late_;  // the others agreed before this agent began to settle
  TimePoint late_until_;
  std::shared_ptr<const std::vector<float>> adopted_;  // for the next boundary of settling; null: none
  bool stop_asked_ = false;
  bool steps_await_exchange_ = false;
  bool holds_final_ = false;
  TimePoint wait_until_;
};

}  // namespace starling
