#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/commands/invite.h"
#include "agent/observe/log.h"
#include "agent/observe/member_report.h"
#include "agent/observe/warnings.h"
#include "agent/process/address_watch.h"
#include "agent/process/host_address.h"
#include "agent/process/registry_service.h"
#include "agent/process/served_swarms.h"
#include "agent/process/signals.h"
#include "agent/report/resource_limits.h"
#include "agent/report/version.h"
#include "bootstrap/registry.h"
#include "gossip/net/swarm_port.h"
#include "gossip/net/zmq_transport.h"

namespace starling {
namespace {

constexpr Duration kStatusEvery = std::chrono::seconds(1);
constexpr int kFramesPerTickMax = 256;

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

using Services = std::vector<std::unique_ptr<RegistryService>>;

// Each swarm that can be served; the transport has the keys of the first.
Services begin_services(std::vector<ServedSwarm> served, const StatePlace& home, const PeerRecord& self,
                        ZmqTransport& transport, const Clock& clock) {
  Services services;
  for (ServedSwarm& one : served) {
    const std::string folder = one.place->folder();
    try {
      if (!services.empty()) transport.open_to(one.trusted.keys);
      services.push_back(std::make_unique<RegistryService>(std::move(one), self, transport, clock));
    } catch (const std::invalid_argument& error) {
      warn_of_unserved(home, folder, error.what());
    }
  }
  return services;
}

// For starling status and those that join; that it cannot be stored is logged.
void keep_address(const StatePlace& place, const Endpoint& address) {
  try {
    place.store_address(address);
  } catch (const std::exception& error) {
    spdlog::warn("starling status needs this registry's address from now on: {}", error.what());
  }
}

void keep_addresses(const Services& services, const StatePlace& home, const Endpoint& address) {
  keep_address(home, address);
  for (const auto& service : services) {
    if (&service->place() != &home) keep_address(service->place(), address);
  }
}

void say_how_to_join(const RegistryService& service, const Endpoint& at) {
  const StatePlace& place = service.place();
  say_join_line("join with", place, at, "");
  if (place.admitted()) {
    spdlog::info("a ticket for {} leads to this registry where it is made by `starling admit ID --via {}@{}`",
                 place.folder(), place.id().hex(), at.to_string());
  }
}

AgentStatus registry_status(const Services& services, const TransportCounters& traffic) {
  RouterCounters refused;
  for (const auto& service : services) refused.add(service->registry().counters());
  AgentStatus status = traffic_status(refused, traffic);
  for (const auto& service : services) {
    service->registry().visit([&](const Router& router) {
      status.peers += peer_count(router.membership());
      status.membership.add(router.membership().counters());
    });
  }
  status.phase = "registry";
  return status;
}

// A swarm that has removed this registry ends alone. Throws std::runtime_error, as RegistryService::tick(): it is the
// last.
void tick_all(Services& services, const StatePlace& home, ZmqTransport& transport, Registry::Listener& listener) {
  std::vector<SwarmPort*> ports;
  for (const auto& service : services) ports.push_back(&service->port());
  SwarmPort::deal(transport, ports, kFramesPerTickMax);
  for (size_t i = 0; i < services.size();) {
    try {
      services[i++]->tick(listener);
    } catch (const std::runtime_error& error) {
      if (services.size() == 1) throw;
      RegistryService& ended = *services[--i];
      warn_of_unserved(home, ended.place().folder(), error.what());
      transport.close_to(ended.swarm());
      services.erase(services.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

int run_registry(const Config& config) {
  StopSignals signals;
  const SteadyClock clock;
  const auto home = std::make_shared<const StatePlace>(config.agent.state, given_identity(config.agent));
  std::vector<ServedSwarm> served = enter_served(config, home);
  require_room(64, 8);  // descriptors and threads
  ZmqContext context;
  ZmqTransport transport(config.agent.listen, context, served.front().trusted.keys);
  const StopSignals::WakeScope wake_on_stop(signals, [&transport] { transport.wake(); });

  PeerRecord self{home->id(), {}, advertised(config.agent, transport.local()), {}};
  self.meta.role = Role::kBootstrap;
  self.meta.program = kProgram;
  self.meta.name = config.agent.name.empty() ? "bootstrap" : config.agent.name;
  Log log;
  Warnings warnings(clock, nullptr, [](const std::string& text) { spdlog::warn(text); });
  Observers observers({&log, &warnings});
  RegistryLog listener(observers);
  Services services = begin_services(std::move(served), *home, self, transport, clock);
  keep_addresses(services, *home, self.endpoint);
  AddressWatch addresses(config.agent, transport.local(), self.endpoint, [&transport] { transport.wake(); });
  spdlog::info("registry {} listens on {}", self.id.short_name(), transport.local().to_string());
  for (const auto& service : services) say_how_to_join(*service, self.endpoint);

  TimePoint next_status = clock.now();
  while (!signals.stop_asked()) {
    tick_all(services, *home, transport, listener);
    if (const auto change = addresses.take()) {
      if (change->slept > Duration::zero()) spdlog::warn("{}", describe_standstill(change->slept));
      for (const auto& service : services) service->registry().move_to(change->address);
      keep_addresses(services, *home, change->address);
      if (std::exchange(self.endpoint, change->address) != change->address) {
        spdlog::warn("this machine has another address: join with --bootstrap {} from now on",
                     change->address.to_string());
      }
    }
    size_t members = 0;
    for (const auto& service : services) members += service->registry().members();
    transport.expect_members(members);
    if (clock.now() >= next_status) {
      next_status = clock.now() + kStatusEvery;
      observers.on(registry_status(services, transport.counters()));
      for (const auto& service : services) {
        for (const std::string& text : service->registry().take_troubles()) spdlog::warn("{}", text);
      }
    }
    TimePoint next = next_status;
    for (const auto& service : services) next = std::min(next, service->next_deadline());
    transport.wait_until(next);
  }
  for (const auto& service : services) service->registry().announce_leave();
  const TimePoint end = clock.now() + kLastWords;
  while (clock.now() < end) {
    tick_all(services, *home, transport, listener);
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
      "has tickets, also several. Repeatable, or with commas. Default: none.");
  for (const char* usage : {"--listen HOST:PORT", "--advertise HOST:PORT", "--swarm ID"}) {
    add_config_flag(command, cli, usage);
  }
  add_config_flag(command, cli, "--name NAME", "Name of the registry, for people. Default: bootstrap.");
  add_config_flag(command, cli, "--state FOLDER",
                  "Folder of the registry's identity and tickets. Default: starling-registry.");
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
