#include "agent/process/state_folder.h"

#include <optional>
#include <random>
#include <span>
#include <stdexcept>

#include "agent/process/host_address.h"
#include "agent/state/private_file.h"
#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "gossip/net/identity.h"

namespace starling {
StatePlace::StatePlace(const std::string& folder) : folder_(folder) {
  lock_ = std::make_unique<DirectoryLock>(folder);
  id_ = load_or_create_identity(folder).id();
  generation_ = next_generation(folder);
}

StatePlace::~StatePlace() = default;

std::string StatePlace::stored_settings() const {
  const std::optional<std::string> text = read_private_file(settings_path(), kSettingsBytesMax);
  if (text && text->empty()) {
    throw std::runtime_error(settings_path() + " is empty, but it held the settings of this folder's swarm; a full "
                             "disk or an interrupted copy may have cut it off. Copy the file from another agent of "
                             "that swarm, or name another folder with --state");
  }
  return text.value_or("");
}

void StatePlace::store_settings(const std::string& settings) const {
  if (stored_settings() != settings) write_private_file(settings_path(), settings, *make_file_ops());
}

uint64_t own_rng_seed(const PeerId& self, uint64_t generation) {
  return xxh3_64(std::as_bytes(std::span(self.bytes))) ^ generation;
}

uint64_t unguessable_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

Endpoint advertised(const AgentConfig& config, const Endpoint& bound) {
  Endpoint endpoint = config.advertise.value_or(config.listen);
  if (endpoint.port == 0) endpoint.port = bound.port;
  if (is_any_address(endpoint.host)) endpoint.host = own_address(config.bootstrap);
  return endpoint;
}

}  // namespace starling
