#include "agent/process/served_swarms.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "gossip/limits.h"

namespace starling {
namespace {

constexpr size_t kKeyDigits = 16;  // of a folder's name

struct Wanted {
  std::string folder;
  std::vector<Ticket> tickets;  // given now
};

std::string folder_of(const std::string& state, const PeerId& swarm) {
  return state + "/swarms/" + swarm.hex().substr(0, kKeyDigits);
}

// The swarm that lies in the state folder itself; zero: none. nullopt: its ticket is damaged.
std::optional<PeerId> swarm_in(const StatePlace& home) {
  if (home.swarm_key()) return home.swarm_key()->id();
  try {
    const std::optional<Ticket> ticket = stored_ticket(home.folder());
    return ticket ? ticket->swarm() : PeerId{};
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

void want(std::vector<Wanted>& all, const std::string& folder, const Ticket* ticket = nullptr) {
  auto one = std::ranges::find(all, folder, &Wanted::folder);
  if (one == all.end()) one = all.insert(one, Wanted{folder, {}});
  if (ticket) one->tickets.push_back(*ticket);
}

std::vector<Wanted> wanted(const Config& config, const StatePlace& home) {
  namespace fs = std::filesystem;
  const std::string& state = home.folder();
  const std::optional<PeerId> here = swarm_in(home);
  std::optional<PeerId> first;
  if (here && !here->is_zero()) first = here;
  std::vector<Wanted> all;
  for (const Ticket& ticket : config.agent.tickets) {
    const std::string own = folder_of(state, ticket.swarm());
    if (!first && !fs::exists(own)) first = ticket.swarm();
    want(all, first == ticket.swarm() ? state : own, &ticket);
  }
  if (!here || !here->is_zero()) want(all, state);
  std::error_code error;  // there is no such folder
  for (const fs::directory_entry& entry : fs::directory_iterator(state + "/swarms", error)) {
    if (entry.path().filename().string().size() == kKeyDigits) want(all, entry.path().string());
  }
  if (all.empty()) want(all, state);
  return all;
}

// `leads`: it has the addresses that no ticket names.
Config config_of(const Config& config, const Wanted& swarm, bool leads) {
  const auto names = [](const std::vector<Ticket>& tickets, const Endpoint& at) {
    return std::ranges::find(tickets, at, &Ticket::at) != tickets.end();
  };
  Config own = config;
  own.agent.state = swarm.folder;
  own.agent.tickets = swarm.tickets;
  std::erase_if(own.agent.bootstrap, [&](const Endpoint& at) {
    return !names(swarm.tickets, at) && (!leads || names(config.agent.tickets, at));
  });
  return own;
}

ServedSwarm enter(const Config& config, std::shared_ptr<const StatePlace> place, const PeerId& self, bool alone,
                  const std::vector<ServedSwarm>& before) {
  if (place->id() != self) {
    throw std::runtime_error(place->folder() + " has another identity than this registry (" + self.short_name() +
                             "): remove that folder, and start with the ticket of `starling admit " + self.hex() + "`");
  }
  Trusted trusted = enter_trust(config, *place, "");
  if (!alone && !trusted.keys) {
    throw std::runtime_error(place->folder() +
                             " holds no ticket: give it with --bootstrap HOST:PORT#TICKET, or "
                             "remove that folder");
  }
  for (const ServedSwarm& other : before) {
    if (other.trusted.keys->swarm() != trusted.keys->swarm()) continue;
    throw std::runtime_error(other.place->folder() + " is of the same swarm: remove one of the two folders");
  }
  return {std::move(place), std::move(trusted)};
}

}  // namespace

void warn_of_unserved(const StatePlace& home, const std::string& folder, const std::string& why) {
  const std::string ticket = folder + "/ticket";
  const std::string what = folder != home.folder() ? folder
                           : home.swarm_key()      ? ticket + " and " + folder + "/swarm.key"
                                                   : ticket;
  spdlog::warn(
      "the swarm of {} is not served: {}. Keep this state folder, which the other swarms need: move {} elsewhere to "
      "serve that swarm no more, or start the registry again after the remedy",
      folder, why, what);
}

std::vector<ServedSwarm> enter_served(const Config& config, std::shared_ptr<const StatePlace> home, bool again) {
  const PeerId self = home->id();
  const std::vector<Wanted> all = wanted(config, *home);
  if (all.size() > kRegistrySwarmsMax) {
    throw std::runtime_error("a registry serves " + std::to_string(kRegistrySwarmsMax) +
                             " swarms at most: leave out tickets, or remove folders in " + home->folder() + "/swarms");
  }
  if (all.size() > 1 && config.agent.swarm_id != 0) {
    throw std::runtime_error("--swarm names one swarm, and this registry has the tickets of " +
                             std::to_string(all.size()) + ": leave --swarm out, or name a new folder with --state");
  }
  std::vector<ServedSwarm> served;
  std::exception_ptr refused;
  KeySeed identity = home->identity().seed();
  for (const Wanted& swarm : all) {
    try {
      auto place =
          swarm.folder == home->folder() ? home : std::make_shared<const StatePlace>(swarm.folder, &identity, again);
      const Config own = config_of(config, swarm, &swarm == &all.front());
      served.push_back(enter(own, std::move(place), self, all.size() == 1, served));
    } catch (const std::runtime_error& error) {
      if (all.size() > 1) warn_of_unserved(*home, swarm.folder, error.what());
      refused = std::current_exception();
    }
  }
  wipe(identity);
  if (served.empty()) std::rethrow_exception(refused);
  return served;
}

}  // namespace starling
