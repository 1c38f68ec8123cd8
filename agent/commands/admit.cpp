// starling key, admit, revoke and members: what the holder of a certified swarm's key does for its members.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "agent/commands/commands.h"
#include "agent/commands/flags.h"
#include "agent/process/admissions.h"
#include "agent/process/state_folder.h"
#include "agent/process/trust.h"
#include "agent/state/private_file.h"
#include "gossip/net/revocations.h"

namespace starling {
namespace {

constexpr size_t kPrefixMin = 8;  // digits of an id, as logs show them

[[noreturn]] void refuse(const std::string& what) { throw std::runtime_error(what); }

// The key of a certified swarm. `otherwise`: what to do where the folder's swarm is shared.
Identity swarm_key_of(const std::string& folder, const char* otherwise) {
  hide_memory();
  if (!std::filesystem::is_directory(folder)) refuse("there is no state folder " + folder + "; name one with --state");
  std::optional<Identity> key = load_swarm_key(folder);
  if (!key) {
    refuse(folder +
           " holds no swarm.key: only the holder of a swarm's key can do this, in the state folder of the agent that "
           "began the swarm with trust: certified (--state)");
  }
  if (!holds_admissions(folder)) {
    if (!shares_ticket(folder, key->id())) refuse(lone_key_text(folder));
    refuse("the members of this swarm share one ticket, " + folder + "/ticket: " + otherwise);
  }
  return *std::move(key);
}

PeerId whole_id(const std::string& text) {
  const std::optional<PeerId> id = PeerId::parse(text);
  if (!id || !curve_public(*id)) {
    refuse("'" + text + "' is no id of an agent, which has 64 digits; `starling key` on its machine prints it");
  }
  return *id;
}

// Or the first digits of one that was admitted.
PeerId admitted_id(const AdmissionBook& book, const std::string& text) {
  if (text.size() < kPrefixMin || PeerId::parse(text)) return whole_id(text);
  std::optional<PeerId> found;
  for (const SignedRow& row : book.rows()) {
    if (!row.id.hex().starts_with(text) || row.id == found) continue;
    if (found) refuse("two members have an id that begins with " + text + "; `starling members` shows all digits");
    found = row.id;
  }
  return found ? *found : whole_id(text);
}

PeerAddress read_via(const std::string& text) {
  const size_t mark = text.find('@');
  const std::optional<PeerId> id = PeerId::parse(text.substr(0, mark));
  const std::optional<Endpoint> at = Endpoint::parse(mark == std::string::npos ? "" : text.substr(mark + 1));
  if (id && curve_public(*id) && at && at->port != 0 && at->port != 65535) return {*at, *id};
  throw std::invalid_argument("'" + text +
                              "': expected ID@HOST:PORT, the id as `starling key` prints it there, and a port below "
                              "65535");
}

// Also by what the folder's agent knows, where `admissions` was lost.
bool is_revoked(const AdmissionBook& book, const std::string& folder, const PeerId& swarm, const PeerId& id) {
  Revocations known(swarm);
  (void)known.take(kept_revocations(folder));
  return book.revoked(id) || known.contains(id);
}

// What opens the agent of this folder, or the registry or agent that `via` names.
Ticket blank_ticket(const std::string& folder, const std::optional<PeerAddress>& via) {
  if (via) return {.at = via->endpoint, .id = via->id};
  const std::optional<Endpoint> at = last_address_of(folder);
  if (!at) refuse("the agent of " + folder + " has stored no address for tickets yet: start it first");
  return {.at = *at, .id = load_or_create_identity(folder).id()};
}

int run_key_command(const KeyCommand& command) {
  (void)make_private_folder(command.state);
  if (!std::filesystem::exists(command.state + "/identity.key")) {
    std::fprintf(stderr, "a new identity, in %s; name the folder with --state where the agent has one already\n",
                 command.state.c_str());
  }
  std::printf("%s\n", load_or_create_identity(command.state).id().hex().c_str());
  return 0;
}

Admission sign_into(AdmissionBook& book, const Identity& key, const PeerId& id, uint64_t not_after) {
  const uint64_t serial = book.next_serial();
  book.add({serial, id, not_after});
  return admit(key, {id, not_after, serial});
}

// The line of a box, which its agent takes by --bootstrap @FILE.
std::string write_box(const std::string& out, Ticket ticket, const PeerId& id) {
  const std::string path = out + "/" + id.hex().substr(0, 16) + ".ticket";
  write_private_file(path, ticket.to_string() + "\n", *make_file_ops());
  return path;
}

int run_admit_command(const AdmitCommand& command) {
  const Identity key = swarm_key_of(command.state, "pass that on, as each of them can invite");
  Ticket ticket = blank_ticket(command.state, command.via);
  const uint64_t lasts = static_cast<uint64_t>(seconds(command.lasts));
  const uint64_t not_after = command.lasts == Duration::zero() ? 0 : SteadyClock().unix_seconds() + lasts;
  AdmissionBook book(command.state);
  if (!command.makes) {
    const PeerId id = whole_id(command.id);
    if (is_revoked(book, command.state, key.id(), id)) {
      refuse(command.id + " is revoked for ever; that machine takes another identity with a new state folder");
    }
    ticket.admission = sign_into(book, key, id, not_after);
    book.store();
    std::fprintf(stderr, "admits %s %s, by --bootstrap or as the file `ticket` of its state folder:\n",
                 id.short_name().c_str(), until_text(not_after).c_str());
    std::printf("%s\n", ticket.to_string().c_str());
    return 0;
  }
  std::error_code error;
  std::filesystem::create_directories(command.out, error);
  std::vector<std::pair<PeerId, Ticket>> boxes;
  for (uint64_t i = 0; i < command.count; ++i) {
    const KeySeed seed = random_seed();
    const PeerId id = Identity(seed).id();
    ticket.admission = sign_into(book, key, id, not_after);
    ticket.admission->identity = seed;
    boxes.emplace_back(id, ticket);
  }
  book.store();
  for (const auto& [id, box] : boxes) std::printf("%s\n", write_box(command.out, box, id).c_str());
  std::fprintf(stderr,
               "each file admits one agent %s, by --bootstrap @FILE; it holds the agent's identity, so give it to no "
               "other\n",
               until_text(not_after).c_str());
  return 0;
}

int run_revoke_command(const RevokeCommand& command) {
  const Identity key = swarm_key_of(
      command.state,
      "a holder of it cannot be removed. Begin a certified swarm from the trained model: starling init --from FOLDER "
      "new.yaml, write `trust: certified` below `swarm:` there, and start its agents with new state folders");
  AdmissionBook book(command.state);
  const PeerId id = admitted_id(book, command.id);
  if (id == load_or_create_identity(command.state).id()) {
    refuse(id.short_name() + " is the agent of " + command.state + ", which holds the swarm's key; stop it instead");
  }
  if (book.revoked(id)) {
    std::printf("%s is revoked already\n", id.short_name().c_str());
    return 0;
  }
  const auto revoked = std::ranges::count_if(book.rows(), [](const SignedRow& row) { return !row.revocation.empty(); });
  if (static_cast<size_t>(revoked) >= kRevocationsMax) {
    refuse("this swarm has " + std::to_string(kRevocationsMax) +
           " revocations, which is the most it can have; begin another one from the trained model: starling init "
           "--from " +
           command.state + " new.yaml");
  }
  const uint64_t serial = book.next_serial();
  book.add({serial, id, 0, sign_revocation(key, id, serial)});
  book.store();
  std::printf("%s is revoked; %s\n", id.short_name().c_str(),
              is_locked(command.state) ? "the agent of this folder tells the swarm within seconds"
                                       : "no agent runs with this folder: start it, as it tells the swarm");
  return 0;
}

int run_members_command(const MembersCommand& command) {
  (void)swarm_key_of(command.state,
                     "nobody keeps a list of its holders; `starling status` shows the members that are there");
  std::map<PeerId, SignedRow> last;
  for (const SignedRow& row : read_admissions(command.state)) {
    SignedRow& held = last[row.id];
    if (held.revocation.empty()) held = row;
  }
  std::vector<SignedRow> rows;
  for (const auto& [id, row] : last) rows.push_back(row);
  std::ranges::sort(rows, {}, &SignedRow::serial);
  for (const SignedRow& row : rows) {
    const bool expired = has_expired(row.not_after, SteadyClock().unix_seconds());
    std::printf("%6llu  %s  %s%s\n", static_cast<unsigned long long>(row.serial), row.id.hex().c_str(),
                row.revocation.empty() ? until_text(row.not_after).c_str() : "revoked", expired ? " (expired)" : "");
  }
  return 0;
}

}  // namespace

void add_key(CLI::App& app, Cli& cli) {
  const auto options = std::make_shared<KeyCommand>();
  Subcommand command(app, "key", "Prints the id of this machine's agent, for starling admit elsewhere.");
  add_state_flag(command, options->state);
  command.then([&cli, options] { cli.choose("key", *options, run_key_command); });
}

void add_admit(CLI::App& app, Cli& cli) {
  const auto options = std::make_shared<AdmitCommand>();
  Subcommand command(app, "admit", "Prints the ticket of one agent, where the key of a certified swarm is.");
  command.text("id", "Id of the agent, as starling key prints it there.", options->id);
  command.option("--for TIME", "How long the ticket admits it, such as 90d. Default: for ever.",
                 [options](const std::string& text) {
                   options->lasts = read_duration(text);
                   if (options->lasts < std::chrono::seconds(1)) throw std::invalid_argument("1s at least");
                 });
  command.flag("--new", "Makes the agent's identity too, and writes a file for --bootstrap @FILE of its machine.",
               options->makes);
  command.option("--via ID@HOST:PORT", "Registry or member that the ticket leads to. Default: the agent of --state.",
                 [options](const std::string& text) { options->via = read_via(text); });
  add_count_flag(command, options->count, "--count", CountValue{1, 10'000}, "With --new: so many files. Default: 1.");
  command.text("--out FOLDER", "With --new: where the files go. Default: the working directory.", options->out);
  add_state_flag(command, options->state);
  command.require_any({"id", "--new"});
  command.exclude("id", "--new");
  command.then([&cli, options] { cli.choose("admit", *options, run_admit_command); });
}

void add_revoke(CLI::App& app, Cli& cli) {
  const auto options = std::make_shared<RevokeCommand>();
  Subcommand command(app, "revoke", "Removes an agent from a certified swarm, for ever.");
  command.text("id", "Its id, or the first eight digits or more of one that was admitted here.", options->id);
  add_state_flag(command, options->state);
  command.require("id");
  command.then([&cli, options] { cli.choose("revoke", *options, run_revoke_command); });
}

void add_members(CLI::App& app, Cli& cli) {
  const auto options = std::make_shared<MembersCommand>();
  Subcommand command(app, "members", "Lists what the key of a certified swarm has signed.");
  add_state_flag(command, options->state);
  command.then([&cli, options] { cli.choose("members", *options, run_members_command); });
}

}  // namespace starling
