#include "agent/process/session.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/config/settings.h"
#include "agent/process/host_address.h"
#include "agent/state/checkpoint.h"
#include "agent/state/file_keeper.h"
#include "agent/state/known_members.h"
#include "bootstrap/router.h"

namespace starling {
namespace {

// A tenth of a processor, where steps want them all: none takes longer by more than that.
constexpr int kWriterNiceness = 10;

// The stored settings, parsed here once so that an error names the file. Empty: none.
std::string checked_settings(const StatePlace& place) {
  const std::string text = place.stored_settings();
  if (text.empty()) return text;
  try {
    (void)parse_agreed_settings(text, place.settings_path());
  } catch (const ConfigError& error) {
    throw ConfigError(std::string(error.what()) +
                      "\n(An earlier run stored these settings. Copy the file from another "
                      "agent of that swarm, or move it away: this agent then joins by --bootstrap or --config as if "
                      "it were new.)");
  }
  if (holds_only_other_swarms(place.folder() + "/checkpoints", swarm_id_of(text))) {
    throw std::runtime_error("the checkpoints in " + place.folder() + "/checkpoints are not of the swarm that " +
                             place.settings_path() +
                             " describes: the file was edited or exchanged. Put the old one "
                             "back, or name a new folder with --state");
  }
  return text;
}

// What the run was raised to before, or by this start. Throws ConfigError: it cannot be raised so.
uint64_t raised_stop(const Config& config, const StatePlace& place, const std::string& stored) {
  if (stored.empty()) {
    if (config.stop_after && !config.has_swarm) {
      spdlog::warn("swarm.stop_after: ignored: only a member that starts again can prolong the run of its swarm");
    }
    return 0;
  }
  const SwarmConfig agreed = parse_agreed_settings(stored).swarm;
  const uint64_t before = std::max(agreed.stop_after, place.raised_stop());
  const uint64_t wanted = config.stop_after.value_or(agreed.stop_after);
  if (wanted == agreed.stop_after) return before;
  if (config.has_swarm) {  // another swarm's: the agent refuses it
    SwarmConfig own = as_agreed(config.swarm, agreed);
    own.stop_after = agreed.stop_after;
    if (!same_settings(own, agreed) || (0 < wanted && wanted < agreed.stop_after)) return before;
  }
  if (agreed.stop_after < wanted && wanted < before) {
    spdlog::info("swarm.stop_after: {}: this run goes to step {} since it was prolonged further; leave the flag out",
                 wanted, before);
    return before;
  }
  const std::string problem = problem_of_stop(wanted, agreed.stop_after, before);
  if (!problem.empty()) throw ConfigError(problem);
  return wanted;
}

// Once the swarm of the folder has let this agent in.
void keep_raised_stop(const AgentOptions& options, const StatePlace& place) {
  if (options.stored_settings.empty()) return;
  const uint64_t agreed = parse_agreed_settings(options.stored_settings).swarm.stop_after;
  const uint64_t before = std::max(agreed, place.raised_stop());
  if (options.raised_stop <= before) return;
  spdlog::info("this agent prolongs the run from step {} to {} (swarm.stop_after)", before, options.raised_stop);
  place.store_raised_stop(options.raised_stop);
}

// Where this agent is let in, for a next life without --bootstrap: also one that ends before it knows any member.
void keep_tickets_places(const AgentConfig& agent, const StatePlace& place) {
  KnownMembers known = read_known_members(place.folder());
  const size_t before = known.members.size();
  for (const Ticket& ticket : agent.tickets) {
    const auto same = [&](const KnownMember& one) { return one.id == ticket.id && one.address == ticket.at; };
    const bool held = std::any_of(known.members.begin(), known.members.end(), same);
    if (!held && ticket.id != place.id() && known.members.size() < kKnownMembersMax) {
      known.members.push_back({ticket.id, ticket.at});
    }
  }
  if (known.members.size() > before) write_known_members(place.folder(), known, *make_file_ops());
}

AgentOptions agent_options(const Trusted& trusted, const StatePlace& place, const Endpoint& bound) {
  const Config& config = trusted.config;
  AgentOptions options;
  options.config = config;
  options.self = place.id();
  options.generation = place.generation();
  options.generation_by_clock = place.began_by_clock();
  options.advertise = advertised(config.agent, bound);
  options.stored_settings = checked_settings(place);
  options.raised_stop = raised_stop(config, place, options.stored_settings);
  if (!options.stored_settings.empty() || (trusted.keys && !config.has_swarm)) {
    options.known = read_known_members(place.folder());
  }
  if (!options.stored_settings.empty()) {
    options.has_model = holds_checkpoint(place.folder() + "/checkpoints");
    const auto newest = newest_checkpoint_meta(place.folder() + "/checkpoints");
    if (newest) options.progress = {.round = newest->round, .steps = newest->steps};
  }
  options.rng_seed = own_rng_seed(place.id(), place.generation()) ^ unguessable_seed();
  options.secret = unguessable_seed();
  options.sign = [&place](std::span<const std::byte> text) { return place.sign(text); };
  options.revocations = trusted.revocations;
  options.keys = trusted.keys;
  if (trusted.keys) options.sign_settings = [&place](const std::string& text) { return place.signature_of(text); };
  options.last_address = place.last_address();
  return options;
}

// "--sharding iid --shard 3/3"
std::string shard_flags(const DataConfig& data) {
  std::string flags = "--sharding " + data.sharding;
  if (data.sharding != "all") flags += fmt::format(" --shard {}/{}", data.shard + 1, data.shard_count);
  if (data.sharding == "dirichlet") flags += fmt::format(" --set agent.data.alpha={}", data.alpha);
  for (size_t i = 0; i < data.labels.size(); ++i)
    flags += (i == 0 ? " --labels " : ",") + std::to_string(data.labels[i]);
  return flags;
}

void keep_shard(const DataConfig& data, const StatePlace& place) {
  if (data.path.empty()) return;
  const std::string now = shard_flags(data), before = place.store_shard(now);
  if (before.empty()) return;
  spdlog::warn(
      "this agent trains on another part of its data than before: {} now, {} at its last start. To go on with that "
      "part, start it with those flags",
      now, before);
}

// For an agent whose tick() threw: the others see it leave, not die.
void say_farewell(Agent& agent, Transport& transport) {
  try {
    agent.abandon();
    while (!agent.finished()) {
      agent.tick();
      transport.wait_until(agent.next_deadline());
    }
  } catch (const std::exception& error) {
    spdlog::warn("and the others could not be told that this agent leaves ({}); they take it for dead within seconds",
                 error.what());
  }
}

}  // namespace

Session::Session(const Config& config, const StatePlace& place, const Clock& clock, Observer& observer)
    : place_(place),
      trusted_(enter_trust(config, place, checked_settings(place))),
      clock_(clock),
      observer_(observer),
      transport_(config.agent.listen, context_, trusted_.keys),
      options_(agent_options(trusted_, place, transport_.local())),
      worker_([this] { transport_.wake(); }),
      writer_([this] { transport_.wake(); }, kWriterNiceness) {
  std::vector<PeerAddress> known;
  for (const KnownMember& member : options_.known.members) known.push_back({member.address, member.id});
  expect_all(transport_, config.agent, known);
  if (!config.agent.tickets.empty()) keep_tickets_places(config.agent, place);
}

void Session::begin(Hooks hooks) {
  hooks_ = std::move(hooks);
  const AgentParts parts{transport_,
                         clock_,
                         worker_,
                         writer_,
                         observer_,
                         hooks_.make_trainer,
                         [this](uint64_t swarm_id, const std::string& settings) -> std::unique_ptr<StateKeeper> {
                           hooks_.entered();
                           place_.store_settings(settings, agent_->router().signature());
                           keep_raised_stop(options_, place_);
                           keep_shard(trusted_.config.agent.data, place_);
                           if (!trusted_.keys && others_reach(trusted_.config.agent)) {
                             warn_of_open_swarm(advertise(), place_.folder());
                           }
                           return std::make_unique<FileKeeper>(place_.folder(), swarm_id, place_.generation(),
                                                               trusted_.config.agent.checkpoint_keep,
                                                               [this] { place_.mend(); });
                         },
                         [this](const KnownMembers& known) {
                           place_.mend();
                           write_known_members(place_.folder(), known, *make_file_ops());
                         },
                         [this](uint64_t stop_after) { place_.store_raised_stop(stop_after); },
                         [this](const Endpoint& to) {
                           PathFound found = paths_.find(to);
                           found.closed = transport_.why_closed(to);
                           found.surely_closed = transport_.surely_closed(to);
                           return found;
                         }};
  agent_ = std::make_unique<Agent>(options_, parts);  // refuses a config of another swarm than the folder's
  trust_watch_ = std::make_unique<TrustWatch>(
      place_, trusted_, transport_, clock_, agent_->clocks(),
      [this](std::string_view entries) { agent_->revoke(entries); },
      [this] { return agent_->router().membership().alive_count(); },
      [this](const PeerId& id) {
        const Member* const member = agent_->router().membership().find(id);
        return member && member->state == MemberState::kAlive;
      });
  place_.store_address(options_.advertise);
}

void Session::run_turns() {
  while (!agent_->finished()) {
    if (hooks_.leave_asked()) agent_->leave();
    agent_->tick();
    trust_watch_->tick();
    hooks_.turn(*agent_);
    transport_.expect_members(agent_->router().membership().alive_count());
    if (agent_->finished()) break;
    transport_.wait_until(std::min(agent_->next_deadline(), trust_watch_->next_deadline()));
  }
}

void Session::run() {
  try {
    run_turns();
  } catch (...) {
    const bool revoked = trusted_.revocations && trusted_.revocations->contains(place_.id());
    const bool twin = !agent_->router().twins().must_end(trusted_.keys && place_.began_by_clock()).empty();
    if (agent_->rounds() != nullptr && !revoked && !twin) {
      spdlog::warn("this agent leaves, as below; started again with --state {} it goes on from its last checkpoint",
                   place_.folder());
    }
    remember_twin(place_, agent_->router().twins());
    say_farewell(*agent_, transport_);
    throw;
  }
}

}  // namespace starling
