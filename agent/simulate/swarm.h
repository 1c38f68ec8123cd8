// Whole agents - the product's own code - over a virtual clock and network, in one thread. The same rng seed gives the
// same run, to the byte. An agent is run when a frame has come for it or its own deadline is due, as in a process of
// its own; so a swarm of a thousand costs what its messages cost.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/run/agent.h"
#include "agent/simulate/timed_trainer.h"
#include "gossip/sim/virtual_network.h"

namespace starling {

// Makes the trainer of an agent; time is added to it (timed_trainer.h). `on_idle`: as TimedTrainer::Make says.
using SimTrainerFactory = std::function<std::unique_ptr<Trainer>(size_t agent, const SwarmConfig& swarm,
                                                                 const Clock& clock, std::function<void()> on_idle)>;

struct SimAgentOptions {
  Duration step_time = std::chrono::milliseconds(10);
  std::vector<size_t> bootstrap;  // agents to join through, also later ones; empty and not the first: agent 0
  bool adopt_settings = false;    // start without a config of its own
  Duration checkpoint_every = std::chrono::seconds(2);  // a newcomer gets a model up to this old
};

class SimSwarm {
 public:
  SimSwarm(uint64_t rng_seed, const SwarmConfig& swarm, const LinkOptions& links, SimTrainerFactory make_trainer);
  ~SimSwarm();

  size_t add(const SimAgentOptions& options);
  void kill(size_t agent);  // no farewell; its disk stays
  // A new generation on the old disk. `raised_stop`: what it raises the end of the run to; 0: it does not.
  void restart(size_t agent, uint64_t raised_stop = 0);
  void pause(size_t agent, bool paused);  // like SIGSTOP
  void run_for(Duration duration);
  // Runs until `condition`, checked after each instant, holds, or `at_most` has passed. Returns whether it held.
  bool run_until(const std::function<bool()>& condition, Duration at_most);
  // Called with what an agent warns its people of (observe/warnings.h).
  void set_on_warning(std::function<void(size_t agent, const std::string& text)> on_warning) {
    on_warning_ = std::move(on_warning);
  }
  // Called when an agent ends with an error, instead of throwing it: the others go on, as processes would.
  void set_on_failure(std::function<void(size_t agent, const std::string& why)> on_failure) {
    on_failure_ = std::move(on_failure);
  }
  // Called when an agent begins to train, before its first step.
  void set_on_begin(std::function<void(size_t agent)> on_begin) { on_begin_ = std::move(on_begin); }

  size_t count() const { return slots_.size(); }
  bool alive(size_t agent) const;     // not killed; it may have finished
  bool living(size_t agent) const;    // started, not killed, not finished
  bool training(size_t agent) const;  // alive, and its params are the swarm's
  bool ended() const;                 // every agent alive has trained to the end
  Agent& agent(size_t index);
  TimedTrainer& trainer(size_t index);
  VirtualNetwork& network() { return network_; }
  VirtualClock& clock() { return clock_; }
  PeerId id(size_t agent) const;
  Endpoint endpoint(size_t agent) const;
  View params(size_t agent) const;  // also while the trainer is busy; for observers, between instants
  View momentum(size_t agent) const;
  uint64_t bytes_sent(size_t agent) const;      // in all its lives
  uint64_t bytes_received(size_t agent) const;  // in this life

  std::vector<double> mean_params() const;                                   // over agents that train or have finished
  double distance_to(size_t agent, const std::vector<double>& point) const;  // rms over params
  double worst_distance_to(const std::vector<double>& point) const;
  uint64_t digest() const;  // of every delivered frame and all final params

 private:
  struct Slot;
  void start(size_t index, uint64_t raised_stop = 0);
  void tick_due();
  void tick(size_t index);
  void schedule(size_t index);
  TimePoint next_event() const;

  VirtualClock clock_;
  VirtualNetwork network_;
  SwarmConfig swarm_;
  uint64_t rng_seed_;
  SimTrainerFactory make_trainer_;
  std::function<void(size_t)> on_begin_;
  std::function<void(size_t, const std::string&)> on_warning_, on_failure_;
  std::vector<std::unique_ptr<Slot>> slots_;
  // Of each slot, kept apart since they are looked through at every event.
  std::vector<TimePoint> next_ticks_;  // max: it does not run
  std::vector<bool> has_frames_;
};

double rms_distance(ConstView params, const std::vector<double>& point);

// Where agent `index` of a simulated swarm listens.
Endpoint sim_endpoint(size_t index);

}  // namespace starling
