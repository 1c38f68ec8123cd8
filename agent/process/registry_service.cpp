#include "agent/process/registry_service.h"

#include <exception>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/config/settings.h"
#include "agent/process/trust.h"

namespace starling {
namespace {

SettingsRead read_settings(const TrustConfig& own, const std::string& text, const std::string& signature) {
  try {
    const AgreedSettings agreed = parse_agreed_settings(text);
    return {problem_of_trust(own, agreed.swarm.trust, text, signature), agreed.swarm.name, agreed.swarm.membership};
  } catch (const ConfigError& error) {
    return {error.what(), "", {}};
  }
}

RegistryOptions options_of(const ServedSwarm& served, PeerRecord self, const ZmqTransport& transport,
                           const PeerId& swarm) {
  const AgentConfig& agent = served.trusted.config.agent;
  const StatePlace& place = *served.place;
  self.version = {place.generation(), 0};
  return {std::move(self),
          agent.bootstrap,
          own_rng_seed(place.id(), place.generation()) ^ unguessable_seed(),
          agent.swarm_id,
          describe_difference,
          [own = served.trusted.config.swarm.trust](const std::string& text, const std::string& signature) {
            return read_settings(own, text, signature);
          },
          unguessable_seed(),
          served.trusted.revocations.get(),
          [&transport, swarm](const Endpoint& to) { return PathFound{.closed = transport.why_closed(to, swarm)}; },
          served.trusted.keys.get()};
}

}  // namespace

void keep_address(const StatePlace& place, const Endpoint& address) {
  try {
    place.store_address(address);
  } catch (const std::exception& error) {
    spdlog::warn("starling status needs this registry's address from now on: {}", error.what());
  }
}

RegistryService::RegistryService(ServedSwarm served, PeerRecord self, ZmqTransport& transport, const Clock& clock)
    : served_(std::move(served)),
      swarm_(served_.trusted.keys ? served_.trusted.keys->swarm() : PeerId{}),
      port_(transport, swarm_),
      registry_(options_of(served_, self, transport, swarm_), port_, clock),
      watch_(
          *served_.place, served_.trusted, transport, clock,
          [this](std::string_view entries) { registry_.revoke(entries); },
          [this] { return registry_.clocks().now(); }) {
  expect_all(transport, served_.trusted.config.agent, {}, swarm_);
  keep_address(place(), self.endpoint);
}

void RegistryService::tick(Registry::Listener& listener) {
  registry_.tick(listener);
  watch_.tick();
}

void RegistryService::move_to(const Endpoint& address) {
  registry_.move_to(address);
  keep_address(place(), address);
}

}  // namespace starling
