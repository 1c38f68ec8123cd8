#include "agent/start.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "agent/host_address.h"
#include "gossip/net/identity.h"

namespace starling {
namespace {

constexpr const char* kSettingsFile = "/settings.yaml";

}  // namespace

StatePlace::StatePlace(const std::string& folder) : folder_(folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw std::runtime_error("cannot make the state folder " + folder + ": " + error.message() +
                             "; choose another one with --state");
  }
  lock_ = std::make_unique<DirectoryLock>(folder);
  id_ = load_or_create_identity(folder).id();
  generation_ = next_generation(folder);
}

StatePlace::~StatePlace() = default;

std::string StatePlace::stored_settings() const {
  std::ifstream file(folder_ + kSettingsFile, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void StatePlace::store_settings(const std::string& settings) const {
  if (stored_settings() == settings) return;
  const std::string path = folder_ + kSettingsFile, fresh = path + ".tmp";
  std::ofstream file(fresh, std::ios::binary);
  file << settings;
  file.close();
  if (!file || std::rename(fresh.c_str(), path.c_str()) != 0) {
    throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno) +
                             "; make room or choose another folder with --state");
  }
}

Endpoint advertised(const AgentConfig& config, const Endpoint& bound) {
  Endpoint endpoint = config.advertise.value_or(config.listen);
  if (endpoint.port == 0) endpoint.port = bound.port;
  if (is_any_address(endpoint.host)) endpoint.host = own_address(config.bootstrap);
  return endpoint;
}

MembershipOptions membership_options(const MembershipConfig& config) {
  MembershipOptions options;
  options.probe_interval = config.probe_interval;
  options.probe_timeout = config.probe_timeout;
  options.indirect_probes = config.indirect_probes;
  options.suspicion = config.suspicion;
  return options;
}

}  // namespace starling
