#include "agent/process/address_watch.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/process/host_address.h"
#include "gossip/net/name_cache.h"

namespace starling {
namespace {

constexpr Duration kEvery = std::chrono::seconds(1);
constexpr Duration kStoodStill = std::chrono::seconds(8);

// Goes on while the machine sleeps, as the steady clock does not.
Duration time_since_boot() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

bool lasts(const std::string& host) { return !is_loopback(host) && !host.starts_with("169.254."); }

}  // namespace

AddressWatch::AddressWatch(const AgentConfig& config, const Endpoint& bound, const Endpoint& current,
                           std::function<void()> wake)
    : config_(config),
      bound_(bound),
      wake_(std::move(wake)),
      current_(current),
      interfaces_(interface_addresses()),
      thread_([this] { run(); }) {}

AddressWatch::~AddressWatch() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ends_.notify_one();
  thread_.join();
}

std::optional<AddressWatch::Change> AddressWatch::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(change_, std::nullopt);
}

void AddressWatch::doubt() {
  const std::lock_guard lock(mutex_);
  doubted_ = true;
}

void AddressWatch::run() {
  Duration before = time_since_boot();
  while (true) {
    bool doubted = false;
    {
      std::unique_lock lock(mutex_);
      if (ends_.wait_for(lock, kEvery, [this] { return ended_; })) return;
      doubted = std::exchange(doubted_, false);
    }
    const Duration now = time_since_boot(), gap = now - std::exchange(before, now);
    look(gap >= kStoodStill ? gap : Duration::zero(), doubted);
    before = time_since_boot();  // names may take long
  }
}

// An address that is still there stays, even if another one would be chosen by now: members know it.
void AddressWatch::look(Duration slept, bool doubted) {
  Endpoint next = current_;
  if (follows_interfaces(config_)) {
    std::vector<std::string> now = interface_addresses();
    const bool gone = !std::binary_search(now.begin(), now.end(), current_.host);
    const bool better = !lasts(current_.host) && now != interfaces_;
    interfaces_ = std::move(now);
    if (gone || better || doubted) next = advertised(config_, bound_);
    if (!lasts(next.host) && !lasts(current_.host)) next = current_;
    if (is_loopback(next.host)) next = current_;  // the network is down
  }
  if (next == current_ && slept == Duration::zero() && !doubted) return;
  current_ = next;
  {
    const std::lock_guard lock(mutex_);
    change_ = Change{next, std::max(slept, change_ ? change_->slept : Duration::zero())};
  }
  wake_();
}

}  // namespace starling
