#include "agent/process/surroundings.h"

#include <chrono>
#include <exception>

#include <spdlog/spdlog.h>

#include "agent/process/lost_packets.h"
#include "bootstrap/path_found.h"

namespace starling {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);
constexpr Duration kDoubtEvery = std::chrono::seconds(15);
constexpr Duration kBetweenLives = std::chrono::minutes(1);  // a forger may cause no more of them

}  // namespace

Surroundings::Surroundings(Agent& agent, const StatePlace& place, AddressWatch& addresses, const Clock& clock,
                           bool again)
    : agent_(agent),
      place_(place),
      addresses_(addresses),
      clock_(clock),
      notice_(clock),
      may_begin_again_(clock.now() + (again ? kBetweenLives : Duration::zero())) {}

void Surroundings::tick() {
  if (const auto change = addresses_.take()) move(*change);
  const TimePoint now = clock_.now();
  if (now < next_) return;
  next_ = now + kLookEvery;
  if (agent_.all_silent() && now >= next_doubt_) {
    next_doubt_ = now + kDoubtEvery;
    addresses_.doubt();
  }
  look_at_packets();
  if (agent_.overtaken() > 0 && now >= may_begin_again_) begin_again();
}

// Only starling status reads it.
void Surroundings::store(const Endpoint& address) {
  try {
    place_.mend();
    place_.store_address(address);
  } catch (const std::exception& error) {
    spdlog::warn("starling status needs this agent's address from now on: {}", error.what());
  }
}

void Surroundings::move(const AddressChange& change) {
  const Endpoint before = agent_.router().membership().self().endpoint;
  if (change.slept > Duration::zero()) spdlog::warn("{}", describe_standstill(change.slept));
  if (change.address != before) {
    spdlog::warn("this machine has another address: others reach this agent at {} from now on, no more at {}",
                 change.address.to_string(), before.to_string());
    store(change.address);
  }
  agent_.move_to(change.address);
}

// Heard before and after the packet was lost once more: a link that was cut loses all packets, and then none.
void Surroundings::look_at_packets() {
  const std::map<std::string, StuckPacket> stuck = stuck_packets();
  std::erase_if(heard_at_, [&](const auto& heard) { return !stuck.contains(heard.first); });
  for (const auto& [host, packet] : stuck) {
    if (!packet.heard || packet.sent_again <= heard_at_.emplace(host, packet.sent_again).first->second) continue;
    notice_.say("short packets pass between this agent and " + host +
                ", but the full ones to it are lost: " + lost_packets_remedy());
  }
}

void Surroundings::begin_again() {
  if (begins_again()) return;
  begins_again_because_ = agent_.router().twins().must_begin_again(generation_by_clock());
  spdlog::warn("{}", begins_again_because_);
  place_.exceed(agent_.overtaken());
  agent_.leave();
}

}  // namespace starling
