#include "agent/process/state_folder.h"

#include <charconv>
#include <filesystem>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "agent/process/admissions.h"
#include "agent/state/class_names.h"
#include "agent/state/private_file.h"
#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "gossip/net/member_keys.h"
#include "gossip/net/revocations.h"

namespace starling {
namespace {

constexpr size_t kStopBytesMax = 32, kShardBytesMax = 4096;
constexpr const char* kAddressFile = "address";
constexpr const char* kTicketFile = "ticket";
constexpr const char* kRevokedFile = "revoked";
constexpr const char* kSignatureFile = "settings.sig";

}  // namespace

std::optional<Endpoint> last_address_of(const std::string& folder) {
  std::string text = read_private_file(folder + "/" + kAddressFile, kHostBytesMax + 16).value_or("");
  while (text.ends_with('\n')) text.pop_back();
  return Endpoint::parse(text);
}

StatePlace::StatePlace(const std::string& folder, const KeySeed* identity, bool again) : folder_(folder) {
  locks_.push_back(std::make_unique<DirectoryLock>(folder));
  if (identity) store_identity(folder, *identity);
  std::string remark;
  identity_ = std::make_unique<Identity>(load_or_create_identity(folder, &remark));
  if (!remark.empty()) spdlog::warn("{}", std::exchange(remark, {}));
  try {
    last_address_ = last_address_of(folder);
  } catch (const std::runtime_error&) {  // a new one is stored, or that fails with the cause
  }
  generation_ = next_generation(folder, !again);
  began_by_clock_ = !again && generation_ <= generation_by_clock();
  if (auto key = load_swarm_key(folder, &remark)) swarm_key_ = std::make_unique<Identity>(*std::move(key));
  if (!remark.empty()) spdlog::warn("{}", remark);
  certified_ = swarm_key_ && holds_admissions(folder);
  for (const char* name : {"identity.key", "swarm.key", "generation", "settings.yaml", kSignatureFile, "stop_after"}) {
    hold(name);
  }
  for (const char* name : {kTicketFile, kRevokedFile, kAdmissionsFile}) {
    try {
      hold(name);
    } catch (const std::runtime_error&) {  // what needs it says so
    }
  }
}

void StatePlace::hold(const std::string& name) const {
  if (auto text = read_private_file(folder_ + "/" + name, kAdmissionsBytesMax)) files_[name] = *std::move(text);
}

void StatePlace::remember_admissions() const {
  const std::lock_guard lock(mutex_);
  hold(kAdmissionsFile);
}

StatePlace::~StatePlace() = default;

std::string StatePlace::stored_settings() const {
  const std::optional<std::string> text = read_private_file(settings_path(), kSettingsBytesMax);
  if (text && text->empty()) {
    throw std::runtime_error(settings_path() +
                             " is empty, but it held the settings of this folder's swarm; a full "
                             "disk or an interrupted copy may have cut it off. Copy the file from another agent of "
                             "that swarm, or name another folder with --state");
  }
  return text.value_or("");
}

void StatePlace::store_settings(const std::string& settings, const std::string& signature) const {
  if (stored_settings() != settings) store("settings.yaml", settings);
  if (!signature.empty() && stored_signature() != signature) store(kSignatureFile, signature);
}

std::string StatePlace::stored_signature() const {
  const std::string stored = read_private_file(folder_ + "/" + kSignatureFile, kProofBytes).value_or("");
  return stored.size() == kProofBytes ? stored : "";  // others would take frames with a part of one for unreadable
}

std::string StatePlace::signature_of(const std::string& settings) const {
  return swarm_key_ ? sign_settings(*swarm_key_, settings) : stored_signature();
}

void StatePlace::store_address(const Endpoint& own) const {
  store(kAddressFile, own.to_string() + "\n");
  if (const std::string text = ticket(own); !text.empty()) store(kTicketFile, text + "\n");
}

void StatePlace::keep_swarm_key(const Identity& key, bool certified) const {
  const std::lock_guard lock(mutex_);
  if (certified) begin_admissions(folder_);  // before the key, which would be a shared one without it
  store_swarm_key(folder_, key);
  swarm_key_ = std::make_unique<Identity>(key.seed());
  certified_ = holds_admissions(folder_);
  hold("swarm.key");
  hold(kAdmissionsFile);
}

void StatePlace::keep_ticket(Ticket ticket) const {
  if (ticket.admission) {
    ticket.admission->identity.reset();
    certified_ = true;
  }
  const std::string text = ticket.to_string() + "\n";
  if (read_private_file(folder_ + "/" + kTicketFile, kTicketTextMax) != text) store(kTicketFile, text);
}

void StatePlace::keep_revocations(const std::string& bytes) const { store(kRevokedFile, bytes); }

std::string kept_revocations(const std::string& folder) {
  return read_private_file(folder + "/" + kRevokedFile, kRevocationsMax * kRevocationBytes).value_or("");
}

std::string StatePlace::ticket(const Endpoint& own) const {
  return swarm_key_ && !certified_ ? Ticket{own, id(), swarm_key_->seed()}.to_string() : "";
}

std::optional<Ticket> stored_ticket(const std::string& folder) {
  const std::string path = folder + "/" + kTicketFile;
  std::optional<std::string> text = read_private_file(path, kTicketTextMax);
  if (!text) return std::nullopt;
  while (text->ends_with('\n')) text->pop_back();
  try {
    return parse_ticket(*text);
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(
        path + ": " + error.what() +
        ". Start the agent of this folder, which writes the file anew; in a certified swarm, put a "
        "ticket of `starling admit` there");
  }
}

Endpoint stored_address(const std::string& folder) {
  const std::string hint = "; name another folder with --state, or an address: starling status HOST:PORT";
  if (!std::filesystem::is_directory(folder)) {
    throw std::runtime_error("there is no state folder " + folder + hint);
  }
  if (!is_locked(folder)) throw std::runtime_error("no agent runs with the state folder " + folder + hint);
  const std::optional<Endpoint> address = last_address_of(folder);
  if (!address) throw std::runtime_error("the agent of the state folder " + folder + " has stored no address" + hint);
  return *address;
}

void StatePlace::exceed(uint64_t generation) const {
  mend();
  const std::lock_guard lock(mutex_);
  store_generation(folder_, generation);
  hold("generation");
}

uint64_t StatePlace::raised_stop() const {
  const std::string path = folder_ + "/stop_after";
  const std::optional<std::string> text = read_private_file(path, kStopBytesMax);
  if (!text) return 0;
  uint64_t steps = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), steps);
  if (error == std::errc() && steps > 0 && std::string_view(end) == "\n") return steps;
  throw std::runtime_error(path +
                           " holds no number of steps; delete it, and start with --set swarm.stop_after=STEPS "
                           "if the run was prolonged");
}

void StatePlace::store_raised_stop(uint64_t steps) const {
  if (raised_stop() != steps) store("stop_after", std::to_string(steps) + "\n");
}

void StatePlace::store(const std::string& name, const std::string& text) const {
  const std::lock_guard lock(mutex_);
  write_private_file(folder_ + "/" + name, text, *make_file_ops());
  files_[name] = text;
}

void StatePlace::mend() const {
  const std::lock_guard lock(mutex_);
  if (!locks_.back()->in_place()) {
    locks_.push_back(std::make_unique<DirectoryLock>(folder_));
    spdlog::warn(
        "the state folder {} was removed or moved away: it is made again, with this agent's identity and settings. See "
        "what removes it, such as a cleaner of temporary folders",
        folder_);
  }
  for (const auto& [name, text] : files_) {
    std::error_code error;
    const std::string path = folder_ + "/" + name;
    if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) {
      write_private_file(path, text, *make_file_ops());
    }
  }
}

void StatePlace::store_classes(const std::vector<std::string>& names) const {
  if (names.empty()) return;
  const std::vector<std::string> stored = read_class_names(folder_);
  const std::string difference = class_difference(names, stored);
  if (!difference.empty()) {
    throw std::runtime_error("the classes of this agent's data are not those that the model in " + folder_ +
                             " was trained on: " + difference + " (" + folder_ +
                             "/classes); name the folders of classes as before, or a new folder with --state");
  }
  if (stored != names) write_class_names(folder_, names, *make_file_ops());
}

std::string StatePlace::store_shard(const std::string& flags) const {
  const std::string stored = read_private_file(folder_ + "/shard", kShardBytesMax).value_or(""), text = flags + "\n";
  if (stored == text) return "";
  store("shard", text);
  return stored.substr(0, stored.find('\n'));
}

void remember_twin(const StatePlace& place, const TwinWatch& twins) {
  if (!twins.twin() || !twins.twin()->older) return;
  const Endpoint& address = twins.twin()->address;
  try {
    place.store_address(address);
  } catch (const std::exception& error) {
    spdlog::warn("the next start does not know of the process at {}; stop that process before it ({})",
                 address.to_string(), error.what());
  }
}

uint64_t own_rng_seed(const PeerId& self, uint64_t generation) {
  return xxh3_64(std::as_bytes(std::span(self.bytes))) ^ generation;
}

uint64_t unguessable_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace starling
