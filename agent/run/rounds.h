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
#include <optional>
#include <string>

#include "agent/config/config.h"
#include "agent/run/boundary_jobs.h"
#include "agent/run/ending.h"
#include "agent/run/meetings.h"
#include "agent/share/sharing.h"
#include "agent/run/sickness.h"
#include "agent/run/stepping.h"

namespace starling {

struct RoundsOptions {
  SwarmConfig swarm;
  Duration checkpoint_every{}, evaluate_every{};
  std::function<void()> on_saved;    // control thread, after a save that worked: StateKeeper::model() has changed
};

class Rounds {
 public:
  // All references must outlive the object.
  Rounds(const RoundsOptions& options, Trainer& trainer, ModelMemory& model, Sharing& sharing, SwarmSampler& sampler,
         const Membership& membership, SwarmClock& swarm_clock, StateKeeper& keeper, Worker& worker, const Clock& clock,
         Observer& observer);

  // A newcomer, whose model comes from a donor, begins with a short ramp of the learning rate.
  void start(const Progress& from, bool newcomer);
  void tick();
  TimePoint next_deadline() const;
  void on_member(const MemberEvent& event) { ending_.on_member(event); }
  void stop();                       // after the current steps: checkpoint, then ended()
  bool ended() const { return state_ == State::kEnded; }   // stopped, or finished at stop_after

  void save_soon() { jobs_.save_soon(); }   // a newcomer needs a newer model than the last one saved

  Phase phase() const { return ending_.finished() ? Phase::kFinished : phase_; }
  const Progress& progress() const { return steps_.progress(); }
  // The params hold steps that no exchange has followed yet: the agent's model, which it evaluates and hands out, is
  // the one that they began from.
  bool steps_await_exchange() const { return steps_await_exchange_; }
  double accuracy() const { return jobs_.accuracy(); }
  double relative_distance() const { return meetings_.relative_distance(); }   // negative: not known yet
  std::optional<bool> settled() const { return ending_.settled(); }   // nullopt: not known yet
  std::optional<Agreement> agreement() const { return ending_.agreement(); }
  const std::optional<Projection>& projection() const { return sharing_.projection(); }
  double mass() const { return steps_.pace().mass(); }
  const Stepping& steps() const { return steps_; }
  const ExchangeCounts& tally() const { return meetings_.tally(); }
  const std::string& left_out_last() const { return meetings_.left_out_last(); }

 private:
  // kWorking: a job is under way, and calls back when it has ended.
  enum class State { kNotStarted, kStepping, kWorking, kServing, kPausing, kBoundary, kEnded };
  void after_steps();
  void boundary();
  void share();
  void shared(bool healthy);
  void begin_round();
  bool nothing_to_share() const;
  bool sends_early() const;
  void begin_steps(uint32_t count);
  void start_steps(uint32_t count);
  void end(Ending::Reason reason);
  void became_sick(const std::string& reason);
  void pause();

  static constexpr Duration kPause = std::chrono::milliseconds(2);   // settling agents leave others the processor
  const uint32_t local_steps_;
  SwarmSampler& sampler_;
  const Clock& clock_;
  Stepping steps_;
  Sharing& sharing_;
  BoundaryJobs jobs_;
  Ending ending_;
  Meetings meetings_;
  Sickness sickness_;

  State state_ = State::kNotStarted;
  Phase phase_ = Phase::kJoining;
  bool stop_asked_ = false;
  bool steps_await_exchange_ = false;
  TimePoint pause_until_;
};

}  // namespace starling
