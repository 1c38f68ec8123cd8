#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/commands/invite.h"
#include "agent/config/settings.h"
#include "agent/observe/log.h"
#include "agent/observe/member_report.h"
#include "agent/observe/warnings.h"
#include "agent/process/address_watch.h"
#include "agent/process/host_address.h"
#include "agent/process/signals.h"
#include "agent/process/state_folder.h"
#include "agent/process/trust.h"
#include "agent/process/trust_watch.h"
#include "agent/report/resource_limits.h"
#include "agent/report/version.h"
#include "bootstrap/registry.h"
#include "gossip/net/zmq_transport.h"

namespace starling {
namespace {

constexpr Duration kStatusEvery = std::chrono::seconds(1);

SettingsRead read_settings(const TrustConfig& own, const std::string& text, const std::string& signature) {
  try {
    const AgreedSettings agreed = parse_agreed_settings(text);
    return {problem_of_trust(own, agreed.swarm.trust, text, signature), agreed.swarm.name, agreed.swarm.membership};
  } catch (const ConfigError& error) {
    return {error.what(), "", {}};
  }
}

// Tells the observers what the registry does, as an agent would.
class RegistryLog final : public Registry::Listener {
 public:
  explicit RegistryLog(Observer& observer) : observer_(observer) {}
  void on_swarm(const std::string& name, uint64_t id) override {
    spdlog::info("serves swarm '{}' (id {:016x}) from now on, at the word of an agent that joined", name, id);
  }
  void on_swarm_forgotten(const std::string& name, uint64_t id) override {
    spdlog::info("forgets swarm '{}' (id {:016x}): it has had no member for a minute", name, id);
  }
  void on_member(const Membership& membership, const MemberEvent& event) override {
    if (const auto changed = member_changed(membership, event)) observer_.on(*changed);
  }

 private:
  Observer& observer_;
};

AgentStatus registry_status(const Registry& registry, const TransportCounters& traffic) {
  AgentStatus status = traffic_status(registry.counters(), traffic);
  registry.visit([&](const Router& router) {
    status.peers += peer_count(router.membership());
    status.membership.add(router.membership().counters());
  });
  status.phase = "registry";
  return status;
}

int run_registry(const Config& given) {
  StopSignals signals;
  const SteadyClock clock;
  const StatePlace place(given.agent.state, given_identity(given.agent));
  const Trusted trusted = enter_trust(given, place, "");
  const Config& config = trusted.config;
  require_room(64, 8);  // descriptors and threads
  ZmqContext context;
  ZmqTransport transport(config.agent.listen, context, trusted.keys);
  expect_all(transport, config.agent, {});
  const StopSignals::WakeScope wake_on_stop(signals, [&transport] { transport.wake(); });

  PeerRecord self{place.id(), {place.generation(), 0}, advertised(config.agent, transport.local()), {}};
  self.meta.role = Role::kBootstrap;
  self.meta.program = kProgram;
  self.meta.name = config.agent.name.empty() ? "bootstrap" : config.agent.name;
  Log log;
  Warnings warnings(clock, nullptr, [](const std::string& text) { spdlog::warn(text); });
  Observers observers({&log, &warnings});
  RegistryLog listener(observers);
  Registry registry(
      {self, config.agent.bootstrap, own_rng_seed(place.id(), place.generation()) ^ unguessable_seed(),
       config.agent.swarm_id, describe_difference,
       [own = config.swarm.trust](const std::string& text, const std::string& signature) {
         return read_settings(own, text, signature);
       },
       unguessable_seed(), trusted.revocations.get(),
       [&transport](const Endpoint& to) { return PathFound{.closed = transport.why_closed(to)}; }, trusted.keys.get()},
      transport, clock);
  TrustWatch trust_watch(place, trusted, transport, clock,
                         [&registry](std::string_view entries) { registry.revoke(entries); });
  place.store_address(self.endpoint);
  AddressWatch addresses(config.agent, transport.local(), self.endpoint, [&transport] { transport.wake(); });
  spdlog::info("registry {} listens on {}", place.id().short_name(), transport.local().to_string());
  say_join_line("join with", place, self.endpoint, "");

  TimePoint next_status = clock.now();
  while (!signals.stop_asked()) {
    registry.tick(listener);
    trust_watch.tick();
    if (const auto change = addresses.take()) {
      registry.move_to(change->address);
      if (std::exchange(self.endpoint, change->address) != change->address) {
        try {
          place.store_address(change->address);
        } catch (const std::exception& error) {
          spdlog::warn("starling status needs this registry's address from now on: {}", error.what());
        }
        spdlog::warn("this machine has another address: join with --bootstrap {} from now on",
                     change->address.to_string());
      }
    }
    size_t members = 0;
    registry.visit([&](const Router& router) { members += router.membership().alive_count(); });
    transport.expect_members(members);
    if (clock.now() >= next_status) {
      next_status = clock.now() + kStatusEvery;
      observers.on(registry_status(registry, transport.counters()));
      for (const std::string& text : registry.take_troubles()) spdlog::warn("{}", text);
    }
    transport.wait_until(std::min({registry.next_deadline(), trust_watch.next_deadline(), next_status}));
  }
  registry.announce_leave();
  const TimePoint end = clock.now() + kLastWords;
  while (clock.now() < end) {
    registry.tick(listener);
    transport.wait_until(end);
  }
  return 0;
}

}  // namespace

void add_bootstrap(CLI::App& app, Cli& cli) {
  Subcommand command(app, "bootstrap", "Runs a registry, which answers joins and trains nothing.");
  add_common_flags(command, cli);
  add_bootstrap_flag(
      command, cli,
      "Address of another registry or agent to stay in touch with; HOST:PORT#TICKET, @FILE or - to serve a swarm that "
      "has tickets. Repeatable, or with commas. Default: none.");
  for (const char* usage : {"--listen HOST:PORT", "--advertise HOST:PORT", "--swarm ID"}) {
    add_config_flag(command, cli, usage);
  }
  add_config_flag(command, cli, "--name NAME", "Name of the registry, for people. Default: bootstrap.");
  add_config_flag(command, cli, "--state FOLDER", "Folder of the registry's identity. Default: starling-registry.");
  command.then([&cli] {
    // Not the folder of an agent, so that both can be started in the same directory.
    const char* state = std::getenv("STARLING_STATE");
    if (state == nullptr || *state == '\0') {
      cli.overrides.insert(cli.overrides.begin(), "agent.state=starling-registry");
    }
    cli.choose("bootstrap", BootstrapCommand{cli.config_path, cli.overrides}, [](const BootstrapCommand& chosen) {
      return run_registry(load_config(chosen.config_path, chosen.overrides));
    });
  });
}

}  // namespace starling
