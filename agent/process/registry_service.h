// What a registry's process does for one swarm: its part of the ports, the registry there, and the watch on its trust.
// It sees no other swarm's frames, and holds no other's keys. Control thread.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "agent/process/served_swarms.h"
#include "agent/process/trust_watch.h"
#include "bootstrap/registry.h"
#include "gossip/clock.h"
#include "gossip/net/swarm_port.h"

namespace starling {

class RegistryService {
 public:
  // `self`: all but the version is taken. The transport has the keys of `served`, and outlives this, as the clock does.
  // `known`: members of the swarm, to ask beside those of `served`.
  RegistryService(ServedSwarm served, const std::vector<PeerAddress>& known, PeerRecord self, ZmqTransport& transport,
                  const Clock& clock);
  RegistryService(const RegistryService&) = delete;
  RegistryService& operator=(const RegistryService&) = delete;

  // Throws std::runtime_error, with the remedy: the swarm has removed this registry.
  void tick(Registry::Listener& listener);
  // Why the process must end, in all its swarms: another one with a copy of the folder began before it. Empty: it need
  // not.
  std::string must_end() const;
  // False: there is no need. Members hold a later process of this identity, so this one has to begin again; that is
  // logged, and the next process in the folder is above it.
  bool prepare_next_life();
  TimePoint next_deadline() const { return std::min(registry_.next_deadline(), watch_.next_deadline()); }

  const StatePlace& place() const { return *served_.place; }
  std::vector<PeerAddress> some_members() const;  // that live
  const PeerId& swarm() const { return swarm_; }  // its key; zero: open swarms
  SwarmPort& port() { return port_; }
  Registry& registry() { return registry_; }
  const Registry& registry() const { return registry_; }

 private:
  const ServedSwarm served_;
  const PeerId swarm_;
  SwarmPort port_;
  Registry registry_;
  TrustWatch watch_;
};

}  // namespace starling
