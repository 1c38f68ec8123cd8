#include "agent/process/registry_service.h"

#include <string>
#include <utility>

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

RegistryService::RegistryService(ServedSwarm served, PeerRecord self, ZmqTransport& transport, const Clock& clock)
    : served_(std::move(served)),
      swarm_(served_.trusted.keys ? served_.trusted.keys->swarm() : PeerId{}),
      port_(transport, swarm_),
      registry_(options_of(served_, self, transport, swarm_), port_, clock),
      watch_(
          *served_.place, served_.trusted, transport, clock, registry_.clocks(),
          [this](std::string_view entries) { registry_.revoke(entries); }, [this] { return registry_.members(); }) {
  expect_all(transport, served_.trusted.config.agent, {}, swarm_);
}

void RegistryService::tick(Registry::Listener& listener) {
  registry_.tick(listener);
  watch_.tick();
}

}  // namespace starling
