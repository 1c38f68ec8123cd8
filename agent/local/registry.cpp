#include "agent/local/registry.h"

#include <stdexcept>

#include "agent/local/ports.h"

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
    process_ = std::make_unique<ChildProcess>(lines_.bootstrap(dir_, port_), log);
    const Listening listening = await();
    if (listening != Listening::kNo) return listening == Listening::kYes;
    // Another process took the port in between.
  }
  throw std::runtime_error("the registry does not start; the end of " + log + " says:" + log_tail(log));
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
