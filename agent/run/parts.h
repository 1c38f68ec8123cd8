// What an agent is constructed from. Everything that touches the world is passed in here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "agent/config/config.h"
#include "agent/observe/events.h"
#include "agent/state/state_keeper.h"
#include "agent/train/trainer.h"
#include "gossip/clock.h"
#include "gossip/net/transport.h"
#include "gossip/peer.h"
#include "gossip/worker.h"

namespace starling {

struct AgentOptions {
  Config config;
  PeerId self;
  uint64_t generation = 0;
  Endpoint advertise;
  std::string stored_settings;   // agreed text of an earlier life in the same state folder; empty: none. With a config
                                 // that means something else, construction throws
  uint64_t rng_seed = 1;         // of this agent's own choices: partners, probes, back-off
  uint64_t secret = 0;           // as in RouterOptions
};

struct AgentParts {
  Transport& transport;
  const Clock& clock;
  Worker& worker;
  Observer& observer;
  // Worker thread. Throws std::runtime_error for a wrong start (data, device).
  std::function<std::unique_ptr<Trainer>(const SwarmConfig&)> make_trainer;
  // Makes the keeper of this swarm's states. `settings` is the agreed text, to be stored beside them.
  std::function<std::unique_ptr<StateKeeper>(uint64_t swarm_id, const std::string& settings)> make_keeper;
};

}  // namespace starling
