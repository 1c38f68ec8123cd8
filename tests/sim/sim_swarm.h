// Whole agents - the product's own code - over a virtual clock and network, in one thread. The same rng seed gives the
// same run, to the byte. Agents train the quadratic toy, whose answer is known.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/quadratic_trainer.h"
#include "gossip/sim/virtual_network.h"
#include "gossip/worker.h"

namespace starling {

struct SimAgentOptions {
  Duration step_time = std::chrono::milliseconds(10);
  std::vector<size_t> bootstrap;      // indices of agents to join through; empty and not the first: agent 0
  bool adopt_settings = false;        // start without a config of its own
  bool random_start = false;          // params and momentum of its own: for conservation, never for training
};

class SimSwarm {
 public:
  SimSwarm(uint64_t rng_seed, const SwarmConfig& swarm, const LinkOptions& links);
  ~SimSwarm();

  size_t add(const SimAgentOptions& options);
  void kill(size_t agent);            // no farewell; its disk stays
  void restart(size_t agent);         // a new generation on the old disk
  void pause(size_t agent, bool paused);   // like SIGSTOP
  void run_for(Duration duration);
  // Until `condition` or the deadline; whether it came true.
  bool run_until(const std::function<bool()>& condition, Duration at_most);

  size_t count() const { return slots_.size(); }
  bool living(size_t agent) const;    // started, not killed, not finished
  Agent& agent(size_t index);
  QuadraticTrainer& trainer(size_t index);
  VirtualNetwork& network() { return network_; }
  VirtualClock& clock() { return clock_; }
  PeerId id(size_t agent) const;
  Endpoint endpoint(size_t agent) const;

  std::vector<double> mean_params() const;          // over living agents that train
  std::vector<double> sum_mass_params(bool momentum) const;
  // The same sum over all random starts, however far apart in time they were.
  const std::vector<double>& initial_sum(bool momentum) const { return momentum ? initial_momentum_ : initial_params_; }
  double worst_distance_to(const std::vector<double>& point) const;   // rms over params, worst living agent
  uint64_t digest() const;            // of every delivered frame and all final params

 private:
  struct Slot;
  void start(size_t index);
  void tick_all();
  VirtualClock clock_;
  VirtualNetwork network_;
  SwarmConfig swarm_;
  uint64_t rng_seed_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<double> initial_params_, initial_momentum_;
};

}  // namespace starling
