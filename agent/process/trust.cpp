#include "agent/process/trust.h"

#include <sys/prctl.h>

#include <stdexcept>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/config/settings.h"
#include "gossip/net/name_cache.h"

namespace starling {
namespace {

[[noreturn]] void refuse_trust(const std::string& what) { throw std::runtime_error(what); }

// Of the settings in the folder. kAuto: there are none.
TrustConfig trust_of(const std::string& stored) {
  return stored.empty() ? TrustConfig{} : parse_agreed_settings(stored).swarm.trust;
}

void take_tickets(const AgentConfig& agent, const StatePlace& place, const TrustConfig& before) {
  if (before.kind == Trust::kOpen) {
    refuse_trust("the state folder " + place.folder() +
                 " belongs to a swarm without tickets: start without the ticket to go on with it, or name a new folder "
                 "with --state to join the ticket's swarm");
  }
  place.keep_swarm_key(Identity(agent.tickets.front().seed));
}

void begin_with_tickets(const AgentConfig& agent, const StatePlace& place) {
  if (!agent.bootstrap.empty()) {
    refuse_trust(
        "this agent's config says trust: ticket, and --bootstrap names " + agent.bootstrap.front().to_string() +
        " without a ticket: give the whole line HOST:PORT#TICKET that stands in the file `ticket` of the state "
        "folder there, or leave --bootstrap out to begin a new swarm");
  }
  place.keep_swarm_key(Identity(random_seed()));
}

// A new swarm has tickets unless its config says otherwise, or only processes of this machine reach it.
bool begins_with_tickets(const Config& config) {
  if (!config.has_swarm || config.swarm.trust.kind == Trust::kOpen) return false;
  return config.swarm.trust.kind == Trust::kTicket || (config.agent.bootstrap.empty() && others_reach(config.agent));
}

void check_folder(const StatePlace& place, const TrustConfig& before) {
  const std::string key = place.folder() + "/swarm.key";
  if (before.kind == Trust::kOpen) {
    refuse_trust(key + " lies in the folder of a swarm without tickets; move it away");
  }
  if (before.kind == Trust::kTicket && before.key != place.swarm_key()->id()) {
    refuse_trust(key + " is not the key of the swarm that " + place.settings_path() +
                 " describes: restore it from a copy, or move it away and start with --bootstrap HOST:PORT#TICKET of "
                 "that swarm");
  }
}

}  // namespace

Trusted enter_trust(const Config& config, const StatePlace& place, const std::string& stored) {
  Trusted trusted{config, nullptr};
  TrustConfig& trust = trusted.config.swarm.trust;
  const TrustConfig before = trust_of(stored);
  const bool given = !config.agent.tickets.empty() || place.swarm_key();
  if (given && config.has_swarm && trust.kind == Trust::kOpen) {
    refuse_trust("the config says trust: open, and the ticket or the state folder " + place.folder() +
                 " is of a swarm that has tickets: take the line out of the config, or leave out the ticket and name a "
                 "new folder with --state");
  }
  if (!config.agent.tickets.empty()) {
    take_tickets(config.agent, place, before);
  } else if (!place.swarm_key() && before.kind == Trust::kTicket) {
    refuse_trust(place.folder() +
                 "/swarm.key is gone, and this swarm lets in nobody without it: restore it from a "
                 "copy, or start with --bootstrap HOST:PORT#TICKET of that swarm");
  } else if (!place.swarm_key() && stored.empty() && begins_with_tickets(config)) {
    begin_with_tickets(config.agent, place);
  }
  if (!place.swarm_key()) {
    if (trust.kind == Trust::kAuto) trust.kind = Trust::kOpen;
    return trusted;
  }
  check_folder(place, before);
  trust = {Trust::kTicket, place.swarm_key()->id()};
  hide_memory();
  trusted.keys = std::make_shared<MemberKeys>(place.identity(), *place.swarm_key());
  return trusted;
}

bool others_reach(const AgentConfig& agent) {
  return !is_loopback(agent.listen.host) || (agent.advertise && !is_loopback(agent.advertise->host));
}

void warn_of_open_swarm(const Endpoint& advertise, const std::string& folder) {
  spdlog::warn(
      "this swarm is open: all that reach {} or the next port can read its model, join and disturb it. In a closed "
      "network that is fine; else begin a swarm with tickets from this model ('starling init --from {} new.yaml')",
      advertise.to_string(), folder);
}

void hide_memory() { (void)::prctl(PR_SET_DUMPABLE, 0); }

void expect_all(ZmqTransport& transport, const AgentConfig& agent, const std::vector<PeerAddress>& known) {
  for (const Endpoint& at : agent.bootstrap) transport.expect_at({at});
  for (auto one = known.rbegin(); one != known.rend(); ++one) transport.expect_at(*one);  // the one seen last counts
  for (const Ticket& ticket : agent.tickets) transport.expect_at({ticket.at, ticket.id});
}

}  // namespace starling
