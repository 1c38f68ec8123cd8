// What an agent is constructed from. Everything that touches the world is passed in here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/config/config.h"
#include "agent/observe/events.h"
#include "agent/run/member_notes.h"
#include "agent/state/known_members.h"
#include "agent/state/state_keeper.h"
#include "agent/train/trainer.h"
#include "bootstrap/path_found.h"
#include "bootstrap/twin_watch.h"
#include "gossip/clock.h"
#include "gossip/net/member_keys.h"
#include "gossip/net/revocations.h"
#include "gossip/net/transport.h"
#include "gossip/peer.h"
#include "gossip/worker.h"

namespace starling {

struct AgentOptions {
  Config config;
  PeerId self;
  uint64_t generation = 0;
  bool generation_by_clock = false;  // it is the wall clock of the start, not above a number that was ahead
  Endpoint advertise;
  std::string stored_settings;  // agreed text of an earlier life in the same state folder; empty: none. With a config
                                // that means something else, construction throws
  KnownMembers known;           // of an earlier life in that folder
  bool has_model = false;       // a checkpoint lies there: this agent needs no genesis
  Progress progress{};          // of the newest one
  uint64_t raised_stop = 0;     // what the run was raised to in an earlier life, or is by this start; 0: not at all
  uint64_t rng_seed = 1;        // of this agent's own choices: partners, probes, back-off
  uint64_t secret = 0;          // as in RouterOptions
  TwinWatch::Sign sign{};       // likewise
  std::shared_ptr<Revocations> revocations{};  // as in RouterOptions
  std::shared_ptr<const MemberKeys> keys{};    // likewise
  // The signature of the swarm's key for a text that this agent brings; empty: it has none. Null: the swarm is open.
  std::function<std::string(const std::string& settings)> sign_settings{};
  std::optional<Endpoint> last_address{};  // of the last process of the state folder; nullopt: there was none
};

struct AgentParts {
  Transport& transport;
  const Clock& clock;
  Worker& worker;
  Worker& writer;  // of checkpoints, beside the steps; may be the worker
  Observer& observer;
  // Worker thread. Throws std::runtime_error for a wrong start (data, device).
  std::function<std::unique_ptr<Trainer>(const SwarmConfig&)> make_trainer;
  // Makes the keeper of this swarm's states. `settings` is the agreed text, to be stored beside them.
  std::function<std::unique_ptr<StateKeeper>(uint64_t swarm_id, const std::string& settings)> make_keeper;
  // Worker thread. Keeps them for the next life; may throw std::runtime_error. Empty: they are not kept.
  MemberNotes::Write keep_members;
  // Worker thread. Keeps what the run was raised to for the next life; may throw std::runtime_error. Empty: it is not.
  std::function<void(uint64_t stop_after)> keep_stop;
  FindPath find_path{};
};

}  // namespace starling
