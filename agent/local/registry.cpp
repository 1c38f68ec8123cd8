#include "agent/local/registry.h"

#include <stdexcept>

#include "agent/local/ports.h"
#include "agent/process/state_folder.h"

namespace starling {
namespace {

using namespace std::chrono_literals;

constexpr Duration kListenLimit = 20s;
constexpr uint32_t kAttempts = 5;

}  // namespace

bool LocalRegistry::start() {
  std::filesystem::create_directories(dir_);
  const std::string log = (dir_ / "log").string();
  for (uint32_t attempt = 0; attempt < kAttempts; ++attempt) {
    port_ = find_free_port_pair(attempt);
    if (has_tickets_) write_ticket();
    process_ = std::make_unique<ChildProcess>(lines_.bootstrap(dir_, port_), log);
    const Listening listening = await();
    if (listening != Listening::kNo) return listening == Listening::kYes;
    // Another process took the port in between.
  }
  throw std::runtime_error("the registry does not start; the end of " + log + " says:" + log_tail(log));
}

// The registry finds the key in its folder. Its agents find the ticket there.
void LocalRegistry::write_ticket() const {
  const StatePlace place((dir_ / "state").string());
  if (!place.swarm_key()) place.keep_swarm_key(Identity(random_seed()));
  place.store_address({"127.0.0.1", port_});
}

std::string LocalRegistry::bootstrap() const {
  return has_tickets_ ? "@" + (dir_ / "state" / "ticket").string() : "127.0.0.1:" + std::to_string(port_);
}

LocalRegistry::Listening LocalRegistry::await() {
  const TimePoint deadline = clock_.now() + kListenLimit;
  while (!process_->poll()) {
    if (accepts_connections(port_)) return Listening::kYes;
    if (clock_.now() > deadline) return Listening::kNo;
    if (gate_.wait(20ms)) return Listening::kInterrupted;
  }
  return Listening::kNo;
}

}  // namespace starling
