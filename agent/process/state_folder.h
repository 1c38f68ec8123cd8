// What an agent and a registry need to start: a state folder of their own, an identity, and an address for others.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "agent/config/config.h"
#include "agent/state/checkpoint_lock.h"
#include "gossip/peer.h"

namespace starling {

// A locked state folder with the identity and a fresh generation in it. Throws std::runtime_error: the folder cannot be
// made, another agent holds it, the key is readable by others.
class StatePlace {
 public:
  explicit StatePlace(const std::string& folder);
  ~StatePlace();
  const std::string& folder() const { return folder_; }
  const PeerId& id() const { return id_; }
  uint64_t generation() const { return generation_; }

  std::string settings_path() const { return folder_ + "/settings.yaml"; }
  // Empty: there is no such file. Throws if it is empty, and as read_private_file says.
  std::string stored_settings() const;
  void store_settings(const std::string& settings) const;  // durably, or throws as write_private_file says

 private:
  std::string folder_;
  std::unique_ptr<DirectoryLock> lock_;
  PeerId id_;
  uint64_t generation_ = 0;
};

// The rng seed of an agent's own choices in one life. The id is mixed in, because agents that start in the same
// millisecond have the same generation.
uint64_t own_rng_seed(const PeerId& self, uint64_t generation);

// Of the numbers that nobody else may guess: those that an answer has to repeat. From the system.
uint64_t unguessable_seed();

// Where others reach us: what the config says, else where we listen, with a real address instead of "all".
Endpoint advertised(const AgentConfig& config, const Endpoint& bound);

}  // namespace starling
