// The swarms that a registry serves: those of the tickets that it is given, and those that its state folder holds from
// earlier lives. One lies in the state folder itself, as an agent's does; each other has the folder swarms/KEY in it,
// with the same identity.
#pragma once

#include <memory>
#include <vector>

#include "agent/config/config.h"
#include "agent/process/state_folder.h"
#include "agent/process/trust.h"

namespace starling {

struct ServedSwarm {
  std::shared_ptr<const StatePlace> place;  // all with the same identity
  Trusted trusted;                          // the addresses and tickets in its config are this swarm's
};

// `home`: of the state folder, which stays this registry's as long as that lives, also where the swarm in it is not
// served. `again`: as StatePlace's. At least one; an open swarm is alone. What keeps another one from being served is
// logged. Throws std::runtime_error, with the remedy: none can be served.
std::vector<ServedSwarm> enter_served(const Config& config, std::shared_ptr<const StatePlace> home, bool again);

// Of a registry of several. `why`: with the remedy.
void warn_of_unserved(const StatePlace& home, const std::string& folder, const std::string& why);

}  // namespace starling
