// The swarm as a whole, from its living members' records: median steps, rate and mass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gossip/membership/membership.h"

namespace starling {

bool takes_part(const MemberMeta& meta);       // an agent that trains or settles
bool has_finished(const MemberMeta& meta);     // an agent that has, and stays for the others

// Living agents that train or settle, without this one. The pointers are into the membership: use them at once.
std::vector<const PeerRecord*> agents_taking_part(const Membership& membership);

class SwarmClock {
 public:
  explicit SwarmClock(const Membership& membership) : membership_(membership) {}

  // Median steps over the agents taking part and this one; never runs backwards.
  uint64_t steps(uint64_t own_steps);
  double median_mass(double own_mass) const;
  double median_rate(double own_steps_per_s) const;   // over the agents that know theirs; 0: none does

  size_t training_count() const;                      // of the others, those still in phase training
  bool some_ended() const;                            // of the others: settling or finished
  size_t taking_part_count() const { return agents_taking_part(membership_).size(); }

 private:
  const Membership& membership_;
  uint64_t steps_ = 0;
};

}  // namespace starling
