// What an agent and a registry need to start: a state folder of their own, an identity, and an address for others.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/state/checkpoint_lock.h"
#include "bootstrap/twin_watch.h"
#include "gossip/net/identity.h"
#include "gossip/net/ticket.h"
#include "gossip/peer.h"

namespace starling {

// A locked state folder with the identity and a fresh generation in it. Throws std::runtime_error: the folder cannot be
// made, another agent holds it, the key is readable by others.
class StatePlace {
 public:
  // `identity`: for a folder that has none yet; null: one is made. `again`: another life of one process. Its generation
  // is the stored one plus 1, whatever the clock says.
  explicit StatePlace(const std::string& folder, const KeySeed* identity = nullptr, bool again = false);
  ~StatePlace();
  const std::string& folder() const { return folder_; }
  const PeerId& id() const { return identity_->id(); }
  const Identity& identity() const { return *identity_; }
  uint64_t generation() const { return generation_; }
  bool began_by_clock() const { return began_by_clock_; }  // false: the clock was behind the stored one, or `again`

  std::string settings_path() const { return folder_ + "/settings.yaml"; }
  // Empty: there is no such file. Throws if it is empty, and as read_private_file says.
  std::string stored_settings() const;
  // With the signature of the swarm's key; empty: there is none. Durably, or throws as write_private_file says.
  void store_settings(const std::string& settings, const std::string& signature = {}) const;
  // Of the settings: made, where the swarm's key is here; else what is stored; empty: none. Throws likewise.
  std::string signature_of(const std::string& settings) const;
  uint64_t raised_stop() const;                  // the step that the run was raised to; 0: never
  void store_raised_stop(uint64_t steps) const;  // durably, or throws as write_private_file says
  // For starling status and, where all members share one, the ticket that others join by; likewise.
  void store_address(const Endpoint& own) const;
  // Where the last process of this folder listened; nullopt: none has.
  const std::optional<Endpoint>& last_address() const { return last_address_; }
  // The key of the swarm with tickets that this folder belongs to; null: it belongs to none, to an open one, or it is
  // that of a member of a certified swarm.
  const Identity* swarm_key() const { return swarm_key_.get(); }
  // Of a certified swarm: this process admits others, or was admitted.
  bool holds_certified_key() const { return swarm_key_ && certified_; }
  bool admitted() const { return !swarm_key_ && certified_; }
  // Durably, or throws as store_swarm_key says. Before any other thread uses this, as is the next.
  void keep_swarm_key(const Identity& key, bool certified = false) const;
  // The ticket by which this process is a member, for its next life. Throws as write_private_file says.
  void keep_ticket(Ticket ticket) const;
  // Those of a certified swarm that this process knows; empty: none. Likewise, and as read_private_file says.
  void keep_revocations(const std::string& bytes) const;
  void remember_admissions() const;  // which another process has written; as read_private_file says
  // "HOST:PORT#TICKET", by which others join through this process at that address. Empty: the swarm is open, or
  // certified, where each member has a ticket of its own.
  std::string ticket(const Endpoint& own) const;
  // The next generation is above this one; likewise.
  void exceed(uint64_t generation) const;
  // That the holder of the key made a text: its signature.
  Signature sign(std::span<const std::byte> text) const { return identity_->sign(text); }

  // Makes again what was removed of all this, with the folder and its lock, and logs that. From any thread. Throws as
  // the constructor does.
  void mend() const;
  // Of this agent's data, by label; none: what is stored stays. Throws likewise, and where the model in the folder was
  // trained on other classes.
  void store_classes(const std::vector<std::string>& names) const;
  // Which part of its data the agent takes, as flags. Returns that of the last start where it was another one; else
  // empty. Durably, or throws likewise.
  std::string store_shard(const std::string& flags) const;

 private:
  void store(const std::string& name, const std::string& text) const;
  void hold(const std::string& name) const;  // what the file has, to make it again. REQUIRES: mutex_, or a constructor
  std::string stored_signature() const;

  std::string folder_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<DirectoryLock>> locks_;  // the last one is in place; others of moved folders
  mutable std::map<std::string, std::string> files_;           // what they hold, by name
  std::unique_ptr<Identity> identity_;
  mutable std::unique_ptr<Identity> swarm_key_;
  mutable bool certified_ = false;
  std::optional<Endpoint> last_address_;
  uint64_t generation_ = 0;
  bool began_by_clock_ = false;
};

// Where an older process of this identity answers: the next start with this folder asks there first, and is refused
// before it joins. That it cannot be stored is logged.
void remember_twin(const StatePlace& place, const TwinWatch& twins);

// Where the process that holds this state folder can be reached. Throws std::runtime_error: none does, or an older
// program that stores no address.
Endpoint stored_address(const std::string& folder);
// Where the last process of the folder listened; nullopt: none has. Throws as read_private_file says.
std::optional<Endpoint> last_address_of(const std::string& folder);
// The ticket of the last process of the folder, which need not run: by which others join, or, of a certified swarm, by
// which it joined itself. nullopt: there is none. Throws likewise where it is damaged.
std::optional<Ticket> stored_ticket(const std::string& folder);

// What keep_revocations() stored there last. Throws likewise.
std::string kept_revocations(const std::string& folder);

// The rng seed of an agent's own choices in one life. The id is mixed in, because agents that start in the same
// millisecond have the same generation.
uint64_t own_rng_seed(const PeerId& self, uint64_t generation);

// Of the numbers that nobody else may guess: those that an answer has to repeat. From the system.
uint64_t unguessable_seed();

}  // namespace starling
