#include "agent/process/trust.h"

#include <sys/prctl.h>

#include <ctime>
#include <stdexcept>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/config/settings.h"
#include "agent/process/admissions.h"
#include "gossip/net/name_cache.h"

namespace starling {
namespace {

[[noreturn]] void refuse_trust(const std::string& what) { throw std::runtime_error(what); }

// Of the settings in the folder. kAuto: there are none.
TrustConfig trust_of(const std::string& stored) {
  return stored.empty() ? TrustConfig{} : parse_agreed_settings(stored).swarm.trust;
}

void refuse_other_kind(const StatePlace& place, const TrustConfig& before, Trust kind) {
  if (before.kind == Trust::kAuto || before.kind == kind) return;
  const char* const of = before.kind == Trust::kOpen     ? "a swarm without tickets"
                         : before.kind == Trust::kTicket ? "a swarm with one ticket for all"
                                                         : "a certified swarm, and the ticket is of none";
  refuse_trust("the state folder " + place.folder() + " belongs to " + of +
               ": start without the ticket to go on with it, or name a new folder with --state to join the ticket's "
               "swarm");
}

// Of this agent, for the swarm of `given`, and it ends later, or as late and was signed later.
bool outlasts(const Ticket& stored, const Ticket& given, const PeerId& self) {
  if (!stored.admission || !given.admission || stored.swarm() != given.swarm()) return false;
  const auto held = read_membership(stored.swarm(), stored.admission->membership);
  const auto next = read_membership(given.swarm(), given.admission->membership);
  if (!held || !next || held->id != self || next->id != self) return false;
  const auto rank = [](const SignedMembership& one) { return std::pair(one.not_after - 1, one.serial); };  // 0: latest
  return rank(*held) > rank(*next);
}

// The ticket by which this process is a member of a certified swarm. nullopt: it has none.
std::optional<Ticket> certified_ticket(const AgentConfig& agent, const StatePlace& place) {
  if (place.swarm_key()) return std::nullopt;
  std::optional<Ticket> ticket;
  try {
    ticket = stored_ticket(place.folder());
  } catch (const std::runtime_error&) {  // a given one takes its place
    if (agent.tickets.empty()) throw;
  }
  if (!agent.tickets.empty()) {
    if (ticket && outlasts(*ticket, agent.tickets.front(), place.id())) {
      spdlog::info("the ticket of --bootstrap is older than {}/ticket, which counts: leave --bootstrap out",
                   place.folder());
    } else {
      ticket = agent.tickets.front();
    }
  }
  return ticket && ticket->admission ? ticket : std::nullopt;
}

// Of earlier lives, and those that `starling revoke` made here.
std::shared_ptr<Revocations> known_revocations(const StatePlace& place, const PeerId& swarm) {
  auto revocations = std::make_shared<Revocations>(swarm);
  (void)revocations->take(kept_revocations(place.folder()));
  if (place.holds_certified_key()) (void)revocations->take(revocations_in(place.folder()));
  if (revocations->contains(place.id())) refuse_trust(revoked_text(place.id()));
  return revocations;
}

// The members judge by their clocks whether it has, and let this agent in or refuse it.
void warn_of_expired(const MemberKeys& keys) {
  const uint64_t now = SteadyClock().unix_seconds();
  if (!has_expired(keys.membership().not_after, now)) return;
  spdlog::warn("{}", expired_text(keys, now, "this machine's clock: set it right where it is wrong, else"));
}

void take_tickets(const AgentConfig& agent, const StatePlace& place, const TrustConfig& before) {
  if (agent.tickets.front().admission) return;  // of the swarm whose key this folder holds: it needs none
  refuse_other_kind(place, before, Trust::kTicket);
  const Identity key(agent.tickets.front().seed);
  if (!shares_ticket(place.folder(), key.id())) place.keep_ticket(agent.tickets.front());  // says what the key is of
  place.keep_swarm_key(key);
}

void begin_with_tickets(const AgentConfig& agent, const StatePlace& place, bool certified) {
  if (!agent.bootstrap.empty()) {
    refuse_trust(
        "this agent's config says trust: ticket or certified, and --bootstrap names " +
        agent.bootstrap.front().to_string() +
        " without a ticket: give the whole line HOST:PORT#TICKET that stands in the file `ticket` of the state "
        "folder there, or leave --bootstrap out to begin a new swarm");
  }
  place.keep_swarm_key(Identity(random_seed()), certified);
}

// A new swarm has tickets unless its config says otherwise, or only processes of this machine reach it.
bool begins_with_tickets(const Config& config) {
  if (!config.has_swarm || config.swarm.trust.kind == Trust::kOpen) return false;
  return config.swarm.trust.has_tickets() || (config.agent.bootstrap.empty() && others_reach(config.agent));
}

// Which kind of swarm a key is of that lies alone in a folder. One of a certified swarm is never taken for the other,
// whose tickets hold it.
void check_lone_key(const Config& config, const StatePlace& place, Trust before) {
  if (place.holds_certified_key() || before == Trust::kTicket) return;
  if (before == Trust::kCertified) {
    place.keep_swarm_key(*place.swarm_key(), true);
    spdlog::warn("{}/admissions was missing, so nobody remembers what this key has signed: restore it from a copy",
                 place.folder());
    return;
  }
  const bool began_here = config.has_swarm && config.agent.bootstrap.empty();
  if (began_here && config.swarm.trust.kind != Trust::kCertified) return;
  if (!shares_ticket(place.folder(), place.swarm_key()->id())) refuse_trust(lone_key_text(place.folder()));
}

void check_folder(const Config& config, const StatePlace& place, const TrustConfig& before) {
  const std::string key = place.folder() + "/swarm.key";
  if (before.kind == Trust::kOpen) {
    refuse_trust(key + " lies in the folder of a swarm without tickets; move it away");
  }
  if (before.has_tickets() && before.key != place.swarm_key()->id()) {
    refuse_trust(key + " is not the key of the swarm that " + place.settings_path() +
                 " describes: restore it from a copy, or move it away and start with --bootstrap HOST:PORT#TICKET of "
                 "that swarm");
  }
  check_lone_key(config, place, before.kind);
}

}  // namespace

std::shared_ptr<const MemberKeys> keys_of_ticket(const Ticket& ticket, const StatePlace& place, const PeerId& swarm) {
  if (!ticket.admission || ticket.admission->swarm != swarm) {
    refuse_trust("the ticket is of another swarm than this state folder, " + place.folder() +
                 ": ask the holder of that swarm's key for one, or name a new folder with --state");
  }
  std::shared_ptr<const MemberKeys> keys;
  try {
    keys = std::make_shared<MemberKeys>(place.identity(), *ticket.admission);
  } catch (const std::invalid_argument& error) {
    refuse_trust(error.what());
  }
  return keys;
}

Trusted enter_trust(const Config& config, const StatePlace& place, const std::string& stored) {
  for (const Ticket& ticket : config.agent.tickets) {
    if (ticket.swarm() == config.agent.tickets.front().swarm()) continue;
    refuse_trust(
        "--bootstrap has tickets of different swarms, and an agent is in one: give those of one. A registry (starling "
        "bootstrap) serves several");
  }
  Trusted trusted{config, nullptr};
  TrustConfig& trust = trusted.config.swarm.trust;
  const TrustConfig before = trust_of(stored);
  const std::optional<Ticket> certified = certified_ticket(config.agent, place);
  const bool given = !config.agent.tickets.empty() || place.swarm_key() || certified;
  if (given && config.has_swarm && trust.kind == Trust::kOpen) {
    refuse_trust("the config says trust: open, and the ticket or the state folder " + place.folder() +
                 " is of a swarm that has tickets: take the line out of the config, or leave out the ticket and name a "
                 "new folder with --state");
  }
  if (certified) {
    refuse_other_kind(place, before, Trust::kCertified);
    trust = {Trust::kCertified, before.key.is_zero() ? certified->admission->swarm : before.key};
    hide_memory();
    trusted.keys = keys_of_ticket(*certified, place, trust.key);
    warn_of_expired(*trusted.keys);
    trusted.revocations = known_revocations(place, trust.key);
    place.keep_ticket(*certified);
    return trusted;
  }
  if (!config.agent.tickets.empty()) {
    take_tickets(config.agent, place, before);
  } else if (!place.swarm_key() && before.has_tickets()) {
    refuse_trust(place.folder() + (before.kind == Trust::kTicket ? "/swarm.key" : "/swarm.key or ticket") +
                 " is gone, and this swarm lets in nobody without it: restore it from a "
                 "copy, or start with --bootstrap HOST:PORT#TICKET of that swarm");
  } else if (!place.swarm_key() && stored.empty() && begins_with_tickets(config)) {
    begin_with_tickets(config.agent, place, trust.kind == Trust::kCertified);
  }
  if (!place.swarm_key()) {
    if (trust.kind == Trust::kAuto) trust.kind = Trust::kOpen;
    return trusted;
  }
  check_folder(config, place, before);
  trust = {place.holds_certified_key() ? Trust::kCertified : Trust::kTicket, place.swarm_key()->id()};
  hide_memory();
  trusted.keys = std::make_shared<MemberKeys>(place.identity(), *place.swarm_key());
  if (place.holds_certified_key()) trusted.revocations = known_revocations(place, trust.key);
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

const KeySeed* given_identity(const AgentConfig& agent) {
  for (const Ticket& ticket : agent.tickets) {
    if (ticket.admission && ticket.admission->identity) return &*ticket.admission->identity;
  }
  return nullptr;
}

std::string how_others_are_admitted(const StatePlace& place) {
  if (place.admitted()) {
    return "others join with a ticket of their own, which the holder of this swarm's key makes (starling admit)";
  }
  if (!place.holds_certified_key()) return "";
  return "others join with a ticket of their own: `starling key` there prints an id, and `starling admit ID --state " +
         place.folder() + "` here its ticket";
}

bool shares_ticket(const std::string& folder, const PeerId& key) {
  try {
    const std::optional<Ticket> ticket = stored_ticket(folder);
    return ticket && !ticket->admission && ticket->swarm() == key;
  } catch (const std::runtime_error&) {  // damaged
    return false;
  }
}

std::string lone_key_text(const std::string& folder) {
  return "the file admissions is missing beside " + folder +
         "/swarm.key: restore it from the copy. If all members share one ticket, start the agent here once with "
         "--bootstrap HOST:PORT#TICKET instead";
}

std::string expired_text(const MemberKeys& keys, uint64_t unix_s, const char* by) {
  return "the ticket has expired on " + date_text(keys.membership().not_after) + ", and it is " + date_text(unix_s) +
         " by " + by + " ask the holder of the swarm's key for the ticket of `starling admit " + keys.self().hex() +
         "`";
}

std::string revoked_text(const PeerId& id) {
  return "this agent (" + id.short_name() +
         ") is revoked: the holder of the swarm's key has removed it from the swarm (starling revoke). Only "
         "another identity can come back: that of a new state folder (--state), with a ticket of its own";
}

std::string until_text(uint64_t not_after) { return not_after == 0 ? "for ever" : "until " + date_text(not_after); }

std::string date_text(uint64_t unix_s) {
  const auto time = static_cast<std::time_t>(unix_s);
  std::tm parts{};
  char text[32];
  if (!::gmtime_r(&time, &parts) || std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts) == 0) {
    return "a time that no calendar has";
  }
  return text;
}

void expect_all(ZmqTransport& transport, const AgentConfig& agent, const std::vector<PeerAddress>& known,
                const PeerId& swarm) {
  for (const Endpoint& at : agent.bootstrap) transport.expect_at({at}, swarm);
  for (auto one = known.rbegin(); one != known.rend(); ++one) {
    transport.expect_at(*one, swarm);  // the one seen last counts
  }
  for (const Ticket& ticket : agent.tickets) transport.expect_at({ticket.at, ticket.id}, swarm);
}

}  // namespace starling
