// Whom to exchange with next, and what the living members say of the swarm: its clock and its masses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "gossip/clock.h"
#include "gossip/membership/membership.h"
#include "gossip/limits.h"
#include "gossip/rng.h"

namespace starling {

// One number for an agent's weight in the swarm's mean (soundness §3): its model moves 1/rate as often as others, so
// "uniform" gives 1/rate, "data" data_size/rate, and "equal" 1. Rounded to a power of sqrt(2) so that like machines get
// the very same mass; `before` is kept while the exact value is within a factor 1.5 of it. 0 = no mass yet.
double choose_mass(const std::string& weight, double steps_per_s, uint64_t data_size, double before);

class Partners {
 public:
  Partners(const Membership& membership, const Clock& clock, uint64_t rng_seed);

  // A random living agent that trains or settles and did not fail us within kAvoidAfterFailure.
  std::optional<PeerId> choose();
  void failed(const PeerId& peer);
  void succeeded(const PeerId& peer);

  // Median steps over living agents and ourselves; never runs backwards.
  uint64_t swarm_steps(uint64_t own_steps);
  double median_mass(double own_mass) const;
  size_t training_count() const;     // living agents still in phase training
  size_t candidate_count() const;    // living agents that could be chosen, avoided ones included

 private:
  std::vector<Member> candidates() const;
  const Membership& membership_;
  const Clock& clock_;
  Rng rng_;
  std::unordered_map<PeerId, TimePoint> avoid_until_;
  uint64_t swarm_steps_ = 0;
};

}  // namespace starling
