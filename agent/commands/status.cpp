// starling status: a running swarm, seen from outside.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/config/settings.h"
#include "agent/config/values.h"
#include "agent/observe/swarm_status.h"
#include "agent/process/admissions.h"
#include "agent/process/host_address.h"
#include "agent/process/state_folder.h"
#include "agent/process/trust.h"
#include "agent/report/format.h"
#include "agent/report/redrawn.h"
#include "agent/state/known_members.h"
#include "bootstrap/swarm_reader.h"
#include "gossip/net/name_cache.h"
#include "gossip/net/zmq_transport.h"

namespace starling {
namespace {

constexpr Duration kPatience = std::chrono::seconds(5);  // for the first answer
constexpr Duration kSilence = std::chrono::seconds(3);   // after which a table says that it is old

struct Asked {
  Endpoint at;
  std::optional<Ticket> ticket;  // nullopt: it is asked without one
  std::string state;             // of the member that asks, in a certified swarm
};

// Of a certified swarm: the reader is admitted by the key in the folder, or is the folder's own agent. The admission
// never ends, as an asked agent would judge its end by another clock. No other process can use it: the reader's
// identity is new, in no file, and lost with this process.
std::optional<Ticket> certified_ticket(const std::string& state) {
  std::optional<Ticket> ticket = stored_ticket(state);
  if (!holds_admissions(state)) return ticket;
  const std::optional<Identity> key = load_swarm_key(state);
  if (!key) return ticket;
  const KeySeed reader = random_seed();
  ticket = Ticket{.at = {}, .id = load_or_create_identity(state).id()};
  ticket->admission = admit(*key, {Identity(reader).id()});
  ticket->admission->identity = reader;
  return ticket;
}

// Of an agent that runs here.
std::optional<Ticket> own_ticket(const std::string& state, const Endpoint& at) {
  std::optional<Ticket> ticket = certified_ticket(state);
  if (ticket && ticket->admission) ticket->id = load_or_create_identity(state).id();
  if (ticket) ticket->at = at;
  return ticket;
}

// Of an address without a ticket: what the state folder knows of who is there.
std::optional<Ticket> known_ticket(const Endpoint& at, const std::string& state) {
  try {
    std::optional<Ticket> own = certified_ticket(state);
    if (!own || own->at == at) return own;
    own->at = at;
    for (const KnownMember& member : read_known_members(state).members) {
      if (member.address != at) continue;
      own->id = member.id;
      return own;
    }
  } catch (const std::runtime_error&) {  // the folder may have nothing to do with that address
  }
  return std::nullopt;
}

Asked asked_address(const StatusCommand& command, const AgentConfig& agent) {
  if (command.address.empty()) {
    const Endpoint at = stored_address(agent.state);
    return {at, own_ticket(agent.state, at), agent.state};
  }
  if (command.address.find_first_of("#@%") != std::string::npos) {
    const Addresses given = AddressesValue{}.read(scalar_tree(command.address));
    if (given.tickets.size() == 1) return {given.tickets.front().at, given.tickets.front(), agent.state};
  }
  const std::optional<Endpoint> address = Endpoint::parse(command.address);
  if (address && address->port != 0) return {*address, known_ticket(*address, agent.state), agent.state};
  throw std::runtime_error("'" + command.address +
                           "' is no address; name an agent or a registry as HOST:PORT, such as 10.0.0.1:7400");
}

Endpoint answer_address(const StatusCommand& command, const Endpoint& asked) {
  const std::optional<std::string> towards = source_towards(asked);
  if (!towards && !is_number(asked.host)) {
    throw std::runtime_error("no name server tells the address of " + asked.host + "; look: getent hosts " +
                             asked.host);
  }
  if (!towards)
    throw std::runtime_error("this machine has no way to " + asked.host + "; look at its network: ip route");
  Endpoint own{*towards, 0};
  if (command.listen.empty()) return own;
  const std::optional<Endpoint> listen = Endpoint::parse(command.listen);
  if (!listen) throw std::runtime_error("--listen " + command.listen + ": expected HOST:PORT");
  own = *listen;
  if (is_any_address(own.host)) own.host = *towards;
  return own;
}

SwarmGoal goal_of(const std::string& settings) {
  try {
    const AgreedSettings agreed = parse_agreed_settings(settings);
    return {agreed.swarm.name, agreed.swarm.stop_after, agreed.swarm.wait_for, agreed.swarm.model.kind == "lstm"};
  } catch (const ConfigError&) {  // of a later program, say: the records can be read all the same
    return {"of settings that this program cannot read"};
  }
}

class StatusWatch {
 public:
  StatusWatch(const StatusCommand& command, const Asked& asked, const Endpoint& own, uint64_t swarm)
      : once_(command.once || (!command.json && isatty(STDOUT_FILENO) == 0)),
        json_(command.json),
        asked_(asked.at),
        own_(own),
        keys_(keys_for(asked)),
        transport_(own, context_, keys_),
        reader_(options(own, swarm), transport_, clock_) {
    transport_.expect_at({asked.at, asked.ticket ? asked.ticket->id : PeerId{}});
  }

  // Until it is interrupted, or has told once.
  void run() {
    const TimePoint began = clock_.now();
    std::optional<TimePoint> shown;
    for (;;) {
      reader_.tick();
      if (!reader_.refusal().empty()) throw std::runtime_error(reader_.refusal());
      const auto& view = reader_.view();
      if (view && view->settings.empty() && (once_ || clock_.now() - began > kPatience)) throw_empty(*view);
      if (!view && (clock_.now() - began > kPatience || transport_.surely_closed(asked_))) throw_silent();
      const bool fresh = view && !view->settings.empty() && (!shown || view->at != *shown);
      const bool old = shown && !json_ && clock_.now() - *shown > kSilence;
      if (fresh || old) show(*view);
      if (fresh) shown = view->at;
      if ((fresh && once_) || std::ferror(stdout) != 0) return;  // the latter: its reader is gone
      transport_.wait_until(std::min(reader_.next_deadline(), clock_.now() + std::chrono::milliseconds(500)));
    }
  }

 private:
  SwarmReaderOptions options(const Endpoint& own, uint64_t swarm) const {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
    SwarmReaderOptions options{
        asked_, swarm, {own.host, transport_.local().port}, static_cast<uint64_t>(ms), unguessable_seed()};
    if (keys_) options.self = keys_->self();
    return options;
  }

  // Of a member that is gone in a moment; in a certified swarm of one that was admitted.
  static std::shared_ptr<const MemberKeys> keys_for(const Asked& asked) {
    if (!asked.ticket) return nullptr;
    hide_memory();
    const std::optional<Admission>& admission = asked.ticket->admission;
    if (!admission) return std::make_shared<MemberKeys>(Identity(random_seed()), Identity(asked.ticket->seed));
    try {
      if (admission->identity) return std::make_shared<MemberKeys>(Identity(*admission->identity), *admission);
      if (!std::filesystem::exists(asked.state + "/identity.key")) {
        throw std::runtime_error("the ticket is of one agent: name its state folder with --state");
      }
      return std::make_shared<MemberKeys>(load_or_create_identity(asked.state), *admission);
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(std::string(error.what()) + ", or name that agent's folder with --state");
    }
  }

  void show(const SwarmView& view) {
    SwarmGoal goal = goal_of(view.settings);
    for (const SwarmView::Row& row : view.rows) {
      if (goal.stop_after > 0) goal.stop_after = std::max(goal.stop_after, row.record.meta.stop_after);
    }
    if (json_) {
      std::printf("%s\n", swarm_json(view, goal).c_str());
      std::fflush(stdout);
      return;
    }
    std::vector<std::string> lines = render_swarm(view, goal, drawn_.terminal() ? drawn_.columns() : 0);
    const Duration old = clock_.now() - view.at;
    if (old > kSilence) {
      lines.front() = asked_.to_string() + " has not answered for " + print_span(seconds(old)) + "; before that:";
    }
    if (drawn_.terminal()) return drawn_.draw(lines);
    for (const std::string& line : lines) std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }

  [[noreturn]] void throw_empty(const SwarmView& view) const {
    const bool registry = view.teller.meta.role == Role::kBootstrap;
    throw std::runtime_error(
        asked_.to_string() +
        (registry ? " is a registry, and knows no swarm yet" : " is an agent that has joined no swarm yet") +
        "; wait until an agent has joined");
  }

  [[noreturn]] void throw_silent() const {
    if (const std::string closed = transport_.why_closed(asked_); !closed.empty()) throw std::runtime_error(closed);
    throw std::runtime_error(fmt::format(
        "nobody answers at {} within {}: does an agent or a registry run there, and can it reach {} and "
        "the next port, where its answers go (--listen HOST:PORT names another place)?",
        asked_.to_string(), print_span(seconds(kPatience)), Endpoint{own_.host, transport_.local().port}.to_string()));
  }

  const bool once_, json_;
  const Endpoint asked_;
  const Endpoint own_;
  const SteadyClock clock_;
  ZmqContext context_{1};
  const std::shared_ptr<const MemberKeys> keys_;  // null: without a ticket
  ZmqTransport transport_;
  SwarmReader reader_;
  Redrawn drawn_{stdout};
};

int run_status_command(const StatusCommand& command) {
  const AgentConfig agent = load_config("", command.overrides).agent;
  const Asked asked = asked_address(command, agent);
  StatusWatch(command, asked, answer_address(command, asked.at), agent.swarm_id).run();
  return 0;
}

}  // namespace

void add_status(CLI::App& app, Cli& cli) {
  Subcommand command(app, "status", "Shows a running swarm: a table of all agents, the one in most trouble first.");
  const auto options = std::make_shared<StatusCommand>();
  command.text(
      "address",
      "HOST:PORT of any agent or registry of the swarm; HOST:PORT#TICKET or @FILE where it has tickets and the "
      "state folder knows none. Default: the agent that runs here with the state folder of --state.",
      options->address);
  add_config_flag(command, cli, "--state FOLDER", "State folder of an agent that runs here. Default: starling-state.");
  add_config_flag(command, cli, "--swarm ID", "Id of the swarm to show, at a registry that serves several.");
  command.flag("--once", "Prints the table once and ends, as it does without a terminal.", options->once);
  command.flag("--json", "Prints a line of JSON a second, or one with --once, instead of a table.", options->json);
  command.text(
      "--listen HOST:PORT",
      "Where the answers come in, with the next port. Default: any free ports of the address that leads there.",
      options->listen);
  command.then([&cli, options] {
    options->overrides = cli.overrides;
    cli.choose("status", *options, run_status_command);
  });
}

}  // namespace starling
