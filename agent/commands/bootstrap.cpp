#include <algorithm>
#include <cstddef>
#include <exception>
#include <map>
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
#include "agent/observe/trouble_notice.h"
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
constexpr Duration kBetweenLives = std::chrono::minutes(1);  // that one swarm causes, which may have a forger

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

// What one life of the process leaves to the next, by the folder of a swarm.
struct Left {
  std::map<std::string, std::vector<PeerAddress>> members;
  std::map<std::string, TimePoint> may_begin_again;  // at its word; where there is none, at once
};

// Each swarm that can be served; the transport has the keys of the first.
Services begin_services(std::vector<ServedSwarm> served, const Left& left, const StatePlace& home,
                        const PeerRecord& self, ZmqTransport& transport, const Clock& clock) {
  Services services;
  for (ServedSwarm& one : served) {
    const std::string folder = one.place->folder();
    try {
      if (!services.empty()) transport.open_to(one.trusted.keys);
      const auto members = left.members.find(folder);
      services.push_back(std::make_unique<RegistryService>(
          std::move(one), members == left.members.end() ? std::vector<PeerAddress>() : members->second, self, transport,
          clock));
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

void say_farewell(const Services& services, ZmqTransport& transport, const Clock& clock) {
  for (const auto& service : services) service->registry().announce_leave();
  const TimePoint end = clock.now() + kLastWords;
  while (clock.now() < end) {
    if (!transport.poll()) transport.wait_until(end);  // what still comes is nobody's
  }
}

// A swarm that this registry may not serve any more ends alone. Throws std::runtime_error, as RegistryService::tick():
// it is the last.
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

// Empty: no other process of this identity began before this one. The next start asks it first, in each swarm.
std::string must_end(const Services& services) {
  for (const auto& found : services) {
    const std::string why = found->must_end();
    if (why.empty()) continue;
    for (const auto& service : services) remember_twin(service->place(), found->registry().twins());
    return why;
  }
  return "";
}

// False: there is no need yet. A copy may be found in one swarm long after it was found in another.
bool prepare_next_life(const Services& services, Left& left, TimePoint now) {
  const bool begins = std::any_of(services.begin(), services.end(), [&](const auto& service) {
    return service->registry().twins().overtaken() > 0 && now >= left.may_begin_again[service->place().folder()];
  });
  if (!begins) return false;
  left.members.clear();
  for (const auto& service : services) {
    const std::string& folder = service->place().folder();
    left.members[folder] = service->some_members();
    if (service->prepare_next_life()) left.may_begin_again[folder] = now + kBetweenLives;
  }
  return true;
}

// One life of a registry. `again`: not the first of this process. True: another one follows.
bool run_registry_once(Config& config, bool again, Left& left) {
  StopSignals signals;
  signals.set_reply("this registry tells its members and ends; again to stop now");
  const SteadyClock clock;
  const auto home = std::make_shared<const StatePlace>(config.agent.state, given_identity(config.agent), again);
  std::vector<ServedSwarm> served = enter_served(config, home, again);
  require_room(64, 8);  // descriptors and threads
  ZmqContext context;
  ZmqTransport transport(config.agent.listen, context, served.front().trusted.keys);
  config.agent.listen.port = transport.local().port;
  const StopSignals::WakeScope wake_on_stop(signals, [&transport] { transport.wake(); });

  PeerRecord self{home->id(), {}, advertised(config.agent, transport.local()), {}};
  self.meta.role = Role::kBootstrap;
  self.meta.program = kProgram;
  self.meta.name = config.agent.name.empty() ? "bootstrap" : config.agent.name;
  Log log;
  Warnings warnings(clock, nullptr, [](const std::string& text) { spdlog::warn(text); });
  Observers observers({&log, &warnings});
  RegistryLog listener(observers);
  TroubleNotice twin_notice(clock);
  Services services = begin_services(std::move(served), left, *home, self, transport, clock);
  keep_addresses(services, *home, self.endpoint);
  AddressWatch addresses(config.agent, transport.local(), self.endpoint, [&transport] { transport.wake(); });
  spdlog::info("registry {} listens on {}", self.id.short_name(), transport.local().to_string());
  for (const auto& service : services) say_how_to_join(*service, self.endpoint);

  TimePoint next_status = clock.now();
  bool begins_again = false;
  while (!signals.stop_asked() && !begins_again) {
    tick_all(services, *home, transport, listener);
    for (const auto& service : services) {
      if (const std::string copy = service->registry().twins().take_notice(); !copy.empty()) twin_notice.say(copy);
    }
    if (const std::string why = must_end(services); !why.empty()) {
      say_farewell(services, transport, clock);
      throw std::runtime_error(why);
    }
    if (const auto change = addresses.take()) {
      if (change->slept > Duration::zero()) spdlog::warn("{}", describe_standstill(change->slept));
      for (const auto& service : services) service->registry().move_to(change->address);
      keep_addresses(services, *home, change->address);
      if (std::exchange(self.endpoint, change->address) != change->address) {
        spdlog::warn("this machine has another address: join with --bootstrap {} from now on",
                     change->address.to_string());
      }
    }
    begins_again = prepare_next_life(services, left, clock.now());
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
  say_farewell(services, transport, clock);
  return begins_again && !signals.stop_asked();
}

int run_registry(Config config) {
  Left left;
  for (bool again = false; run_registry_once(config, again, left); again = true) {
    spdlog::info("this registry starts again with a higher generation, so that members accept it");
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
                  "Folder of the registry's identity, address and tickets. Default: starling-registry.");
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
