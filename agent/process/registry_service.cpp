#include "agent/process/registry_service.h"

#include <span>
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

constexpr size_t kKnownMax = 8;

RegistryOptions options_of(const ServedSwarm& served, const std::vector<PeerAddress>& known, PeerRecord self,
                           const ZmqTransport& transport, const PeerId& swarm) {
  const AgentConfig& agent = served.trusted.config.agent;
  const StatePlace& place = *served.place;
  self.version = {place.generation(), 0};
  std::vector<Endpoint> seeds = agent.bootstrap;
  for (const PeerAddress& member : known) seeds.push_back(member.endpoint);
  return {std::move(self),
          std::move(seeds),
          own_rng_seed(place.id(), place.generation()) ^ unguessable_seed(),
          agent.swarm_id,
          describe_difference,
          [own = served.trusted.config.swarm.trust](const std::string& text, const std::string& signature) {
            return read_settings(own, text, signature);
          },
          unguessable_seed(),
          served.trusted.revocations.get(),
          [&transport, swarm](const Endpoint& to) { return PathFound{.closed = transport.why_closed(to, swarm)}; },
          served.trusted.keys.get(),
          [&place](std::span<const std::byte> text) { return place.sign(text); },
          place.last_address()};
}

}  // namespace

RegistryService::RegistryService(ServedSwarm served, const std::vector<PeerAddress>& known, PeerRecord self,
                                 ZmqTransport& transport, const Clock& clock)
    : served_(std::move(served)),
      swarm_(served_.trusted.keys ? served_.trusted.keys->swarm() : PeerId{}),
      port_(transport, swarm_),
      registry_(options_of(served_, known, self, transport, swarm_), port_, clock),
      watch_(
          *served_.place, served_.trusted, transport, clock, registry_.clocks(),
          [this](std::string_view entries) { registry_.revoke(entries); }, [this] { return registry_.members(); },
          [](const PeerId&) { return false; }) {
  expect_all(transport, served_.trusted.config.agent, known, swarm_);
}

void RegistryService::tick(Registry::Listener& listener) {
  registry_.tick(listener);
  watch_.tick();
}

std::string RegistryService::must_end() const {
  return registry_.twins().must_end(served_.trusted.keys && place().began_by_clock());
}

bool RegistryService::prepare_next_life() {
  const TwinWatch& twins = registry_.twins();
  if (twins.overtaken() == 0) return false;
  spdlog::warn("{}", twins.must_begin_again(generation_by_clock()));
  place().exceed(twins.overtaken());
  return true;
}

std::vector<PeerAddress> RegistryService::some_members() const {
  std::vector<PeerAddress> members;
  registry_.visit([&](const Router& router) {
    router.membership().visit_alive([&](const Member& member) {
      if (members.size() < kKnownMax) members.push_back({member.record.endpoint, member.record.id});
    });
  });
  return members;
}

}  // namespace starling
