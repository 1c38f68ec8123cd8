// What a registry's process does for one swarm: its part of the ports, the registry there, and the watch on its trust.
// It sees no other swarm's frames, and holds no other's keys. Control thread.
#pragma once

#include <algorithm>

#include "agent/process/served_swarms.h"
#include "agent/process/trust_watch.h"
#include "bootstrap/registry.h"
#include "gossip/clock.h"
#include "gossip/net/swarm_port.h"

namespace starling {

class RegistryService {
 public:
  // `self`: all but the version is taken. The transport has the keys of `served`, and outlives this, as the clock does.
  RegistryService(ServedSwarm served, PeerRecord self, ZmqTransport& transport, const Clock& clock);
  RegistryService(const RegistryService&) = delete;
  RegistryService& operator=(const RegistryService&) = delete;

  // Throws std::runtime_error, with the remedy: the swarm has removed this registry.
  void tick(Registry::Listener& listener);
  TimePoint next_deadline() const { return std::min(registry_.next_deadline(), watch_.next_deadline()); }

  const StatePlace& place() const { return *served_.place; }
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
