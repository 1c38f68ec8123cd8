// Whether the group of the swarm has a place for this agent: it holds those that began first. Several members may let
// in a newcomer each at the same time. Then the newest leave, with the remedy, and train no model that nobody gets.
#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>

#include "agent/config/config.h"
#include "agent/run/swarm_sampler.h"
#include "gossip/clock.h"

namespace starling {

class GroupPlace {
 public:
  // The references must outlive the object.
  GroupPlace(const ExchangeConfig& exchange, SwarmSampler& sampler, const Clock& clock)
      : refusal_(refusal(exchange)), sampler_(sampler), clock_(clock) {}

  // At each boundary. Throws std::runtime_error if the group has been full without this agent for a while.
  void check() {
    if (!sampler_.outside_group()) return outside_since_.reset();
    if (!outside_since_) outside_since_ = clock_.now();
    if (clock_.now() - *outside_since_ >= kOutsideMax) throw std::runtime_error(refusal_);
  }

 private:
  static constexpr Duration kOutsideMax = std::chrono::seconds(3);  // views of the members differ for a while

  static std::string refusal(const ExchangeConfig& exchange) {
    const bool of_params = exchange.source == SourceKind::kParams;
    const std::string most = std::to_string(members_max(exchange)) + " members";
    return (shares_updates(exchange) ? "the swarm shares updates, which at most " + most + " can"
                                     : "the swarm is a group, which holds at most " + most) +
           ", and this agent came after them; start it when one has left, or begin a swarm with " +
           (of_params ? "swarm.exchange.kind: pairwise, which holds any number"
                      : "swarm.exchange.source: params and kind: pairwise");
  }

  const std::string refusal_;
  SwarmSampler& sampler_;
  const Clock& clock_;
  std::optional<TimePoint> outside_since_;
};

}  // namespace starling
