#include "agent/process/address_watch.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "agent/process/host_address.h"
#include "gossip/net/name_cache.h"

namespace starling {
namespace {

constexpr Duration kEvery = std::chrono::seconds(1);
constexpr Duration kStoodStill = std::chrono::seconds(8);
constexpr Duration kBetweenWallJumps = std::chrono::minutes(5);

Duration read(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

bool lasts(const std::string& host) { return !is_loopback(host) && !host.starts_with("169.254."); }

}  // namespace

Moment moment() { return {read(CLOCK_BOOTTIME), read(CLOCK_REALTIME)}; }

Duration Standstill::between(const Moment& before, const Moment& now) {
  const Duration by_boot = now.since_boot - before.since_boot, by_wall = now.wall - before.wall;
  if (by_boot >= kStoodStill) return std::max(by_boot, by_wall);
  if (by_wall < kStoodStill || now.since_boot < wall_counts_from_) return by_boot;
  wall_counts_from_ = now.since_boot + kBetweenWallJumps;
  return by_wall;
}

std::string describe_standstill(Duration slept) {
  return fmt::format(
      "this machine or process stood still for {:.0f} s, or its clock was set ahead: its links are made anew, and "
      "there is nothing to do",
      seconds(slept));
}

MovingAddress::MovingAddress(bool follows, Endpoint current, std::vector<std::string> interfaces,
                             std::function<Endpoint()> derive)
    : follows_(follows), derive_(std::move(derive)), current_(std::move(current)), interfaces_(std::move(interfaces)) {}

// An address that is still there stays, even if another one would be chosen by now: members know it.
std::optional<AddressChange> MovingAddress::look(Look seen) {
  Endpoint next = current_;
  if (follows_) {
    const bool gone = !std::binary_search(seen.interfaces.begin(), seen.interfaces.end(), current_.host);
    const bool better = !lasts(current_.host) && seen.interfaces != interfaces_;
    interfaces_ = std::move(seen.interfaces);
    if (gone || better || seen.doubted) next = derive_();
    if (!lasts(next.host) && !lasts(current_.host)) next = current_;
    if (is_loopback(next.host)) next = current_;  // the network is down
  }
  const Duration slept = seen.since_last >= kStoodStill ? seen.since_last : Duration::zero();
  if (next == current_ && slept == Duration::zero() && !seen.doubted) return std::nullopt;
  current_ = next;
  return AddressChange{next, slept};
}

AddressWatch::AddressWatch(const AgentConfig& config, const Endpoint& bound, const Endpoint& current,
                           std::function<void()> wake)
    : wake_(std::move(wake)),
      address_(follows_interfaces(config), current, interface_addresses(),
               [config, bound] { return advertised(config, bound); }),
      thread_([this] { run(); }) {}

AddressWatch::~AddressWatch() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ends_.notify_one();
  thread_.join();
}

std::optional<AddressChange> AddressWatch::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(change_, std::nullopt);
}

void AddressWatch::doubt() {
  const std::lock_guard lock(mutex_);
  doubted_ = true;
}

void AddressWatch::run() {
  Moment before = moment();
  while (true) {
    bool doubted = false;
    {
      std::unique_lock lock(mutex_);
      if (ends_.wait_for(lock, kEvery, [this] { return ended_; })) return;
      doubted = std::exchange(doubted_, false);
    }
    const auto change = address_.look({interface_addresses(), standstill_.between(before, moment()), doubted});
    if (change) note(*change);
    before = moment();  // names may take long
  }
}

// Two changes between calls of take() are one.
void AddressWatch::note(const AddressChange& change) {
  {
    const std::lock_guard lock(mutex_);
    change_ = AddressChange{change.address, std::max(change.slept, change_ ? change_->slept : Duration::zero())};
  }
  wake_();
}

}  // namespace starling
